//! A [`Report`](super::Report) as a table for a terminal, and as a page with pictures.
//! Pure functions from the report to text, without a file, a clock or a terminal.
//!
//! `page` decides what is said, for both. Names, commands and paths in a report are untrusted:
//! wherever they are printed, they are plain text.

mod escaped;
mod html;
mod page;
mod picture;
mod rivals;
mod text;
mod words;

pub use html::html;
pub use picture::{Picture, pictures};
pub use text::table;
pub use words::described;
