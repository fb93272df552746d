//! Options that several commands share, and the parsers of their values. Nothing here knows a
//! command.

pub mod delimiter;
mod lines;
mod times;
pub mod units;
mod values;

pub use lines::{BadLineArgs, Blank, HeaderMismatch, LineArgs, Missing, OnBad, of_records};
pub use times::TimeFormat;
#[cfg(feature = "bench")]
pub use units::{capacity, rate};
pub use values::Quote;
