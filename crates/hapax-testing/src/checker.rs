//! The checker of histories: it searches for an order that explains every answer, and says what is
//! wrong if there is none.

pub(super) mod check;
mod diagram;
mod exercise;
mod frontier;
mod naming;
pub(super) mod problem;
pub(super) mod report;
pub(super) mod rules;
mod search;
mod shrink;
pub(super) mod state;
mod tokens;
pub(super) mod violation;
mod walk;
