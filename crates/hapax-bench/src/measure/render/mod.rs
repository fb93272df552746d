//! Pages made of a [`Report`](super::Report): pure functions from the report to text, without a
//! file, a clock or a terminal.
//!
//! `page` decides what is said, once for all formats; `html` and `text` say it.
//!
//! Names, commands and paths in a report are untrusted: wherever they are printed, they are plain
//! text.

mod answer;
mod axis;
mod columns;
mod csv;
mod html;
mod matrix;
mod notes;
mod page;
mod picture;
mod pivot;
mod table;
pub(super) mod text;
mod view;
pub(super) mod words;
mod xml;

pub use self::csv::csv;
pub use html::html;
pub use picture::svg;
pub use text::{WIDTH_COLUMNS, markdown, table, table_within};
pub use words::described;
