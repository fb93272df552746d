//! Options that several commands share, and the parsers of their values. Nothing here knows a
//! command.

pub mod delimiter;
mod lines;
pub mod units;
mod values;

pub use lines::OF_RECORDS;
pub use lines::{BadLineArgs, HeaderMismatch, LineArgs, Missing, OnBad, TimeFormat};
#[cfg(feature = "bench")]
pub use units::{capacity, rate};
pub use values::Quote;
