//! Responses: their fields, their stored form, and the problems that the layer answers with.

pub(super) mod encoding;
pub(super) mod headers;
pub(super) mod problem;
pub(super) mod problem_details;
pub(super) mod record;
