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
#[cfg(any(feature = "bench", feature = "store"))]
pub use values::whole;
pub use values::{Format, Quote, factor, seed};
