//! Records: where they end, their fields, and the id and time of each.

pub(super) mod columns;
pub mod cut;
pub mod extract;
pub(super) mod fields;
pub(super) mod hints;
pub(super) mod json;
mod pattern;
pub(super) mod time;
