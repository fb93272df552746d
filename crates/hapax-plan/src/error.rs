//! Reasons why there is no plan.

use super::units::{Bytes, BytesNeeded, Count, Time};
use hapax::seam::sizing::InvalidOption;
use std::fmt;
use std::time::Duration;

/// The reason why there is no plan.
///
/// ```
/// use hapax_plan::{Demand, PlanError};
/// use std::time::Duration;
///
/// let error = Demand::new(1e6, Duration::from_secs(3600)).memory_bytes(1 << 30).plan().unwrap_err();
/// let PlanError::TooLittleMemory { longest_window, .. } = error else { panic!("{error}") };
/// let shorter = Demand::new(1e6, longest_window.unwrap()).memory_bytes(1 << 30).plan()?;
/// assert!(shorter.bytes_max() <= 1 << 30);
/// # Ok::<(), PlanError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PlanError {
    /// An option has a value that is not possible, or that contradicts another one.
    Invalid {
        /// The option: the name of the method of [`Demand`](crate::Demand).
        option: &'static str,
        /// The value that was given.
        got: String,
        /// The values that would be valid.
        expected: String,
    },
    /// The memory does not suffice, however it is divided.
    TooLittleMemory {
        /// The memory that may be taken.
        memory_bytes: usize,
        /// The memory that it would take, without any growth, and with a history that is mistaken
        /// about one new id in ten if no rate is demanded.
        needed_bytes: usize,
        /// The longest window that fits, at the same rate; none if not even the shortest one does.
        longest_window: Option<Duration>,
        /// The highest rate that fits, in checks a second, with the same window; none if not even
        /// one a window does.
        highest_rate: Option<f64>,
    },
    /// More ids would be claimed at a time than is possible.
    TooManyInFlight {
        /// The number of claims at the peak.
        in_flight: f64,
        /// The largest possible number.
        in_flight_max: usize,
    },
    /// There are more records than there is room for.
    TooManyRecords {
        /// The largest number of records.
        records_max: usize,
    },
}

impl From<InvalidOption> for PlanError {
    fn from(InvalidOption { option, got, expected }: InvalidOption) -> Self {
        PlanError::Invalid { option, got, expected }
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::Invalid { option, got, expected } => write!(f, "`{option}`: got {got}, expected {expected}"),
            PlanError::TooLittleMemory { memory_bytes, needed_bytes, longest_window, highest_rate } => {
                let (memory, needed) = (Bytes(*memory_bytes as f64), BytesNeeded(*needed_bytes as f64));
                write!(f, "`memory_bytes`: {memory} do not suffice, it takes {needed} at least; ")?;
                match (longest_window, highest_rate) {
                    (None, None) => write!(f, "nothing would fit"),
                    (window, rate) => {
                        let window = window.map(|window| format!("a window of {}", Time(window)));
                        let rate = rate.map(|rate| format!("{} checks/s", Count(rate)));
                        let both: Vec<_> = window.into_iter().chain(rate).collect();
                        write!(f, "what would fit: {}", both.join(", or "))
                    }
                }
            }
            PlanError::TooManyInFlight { in_flight, in_flight_max } => {
                let (got, max) = (Count(*in_flight), Count(*in_flight_max as f64));
                write!(
                    f,
                    "`work`: got {got} ids in flight at the peak, expected at most {max}: less work, or more processes"
                )
            }
            PlanError::TooManyRecords { records_max } => {
                write!(f, "`records_max`: there are more than {} records", Count(*records_max as f64))
            }
        }
    }
}

impl std::error::Error for PlanError {}
