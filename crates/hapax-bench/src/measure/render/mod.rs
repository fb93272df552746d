//! Pages made of a [`Report`](super::Report): pure functions from the report to text, without a
//! file, a clock or a terminal.
//!
//! Names, commands and paths in a report are untrusted: wherever they are printed, they are plain
//! text.

mod answer;
mod chart;
mod charts;
mod columns;
mod csv;
mod html;
mod markdown;
mod notes;
pub(super) mod numbers;
mod svg;
pub(super) mod table;
mod view;
pub(super) mod words;
mod xml;

pub use self::csv::csv;
pub use html::html;
pub use markdown::markdown;
pub use svg::svg;

pub use table::{WIDTH_COLUMNS, table, table_within};
