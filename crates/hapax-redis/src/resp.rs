//! Commands and answers: how they are written and read (RESP), and what they mean.

pub(super) mod answers;
pub(super) mod commands;
pub(super) mod errors;
pub(super) mod reply;
pub(super) mod scripts;
pub(super) mod value;
