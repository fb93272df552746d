//! Errors that say that an attempt was none.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// An error that a handler returns when it cannot do its work now, through no fault of the message:
/// what it depends on is away, or has refused it for a while. It is no attempt: the message is
/// tried again later, as often as it takes, and is not put aside for it.
///
/// ```
/// use hapax_message::Later;
/// use std::error::Error;
/// use std::time::Duration;
///
/// fn charged(status: u16) -> Result<(), Box<dyn Error + Send + Sync>> {
///     match status {
///         429 => Err(Later::because("too many requests").after(Duration::from_secs(30)).into()),
///         500..=599 => Err(Later::because(format!("the bank answered {status}")).into()),
///         _ => Ok(()),
///     }
/// }
///
/// assert!(charged(503).unwrap_err().is::<Later>());
/// ```
///
/// It is found anywhere in the [chain of causes](crate::causes) of what a handler returns. Of this
/// and [`GiveUp`](crate::GiveUp) the outer one decides. What says so for ever comes again for ever:
/// it is counted.
#[derive(Debug)]
pub struct Later {
    after: Option<Duration>,
    because: Box<dyn Error + Send + Sync>,
}

impl Later {
    /// Returns an error with this cause: an error, or a text.
    pub fn because(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Later { after: None, because: cause.into() }
    }

    /// Sets the time after which the message is tried again, a year at most. Default: the delay of
    /// an attempt that has failed.
    #[must_use]
    pub fn after(self, wait: Duration) -> Self {
        Later { after: Some(wait), ..self }
    }

    /// Returns the time after which the message is tried again, if it was set.
    pub fn wait(&self) -> Option<Duration> {
        self.after.map(|wait| wait.min(Duration::from_secs(366 * 24 * 3600)))
    }
}

/// Displays the cause: this wrapper has nothing to add to it.
impl fmt::Display for Later {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.because.fmt(f)
    }
}

impl Error for Later {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.because.source()
    }
}
