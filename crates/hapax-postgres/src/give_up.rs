//! Errors that say that another attempt cannot help.

use super::BoxError;
use std::error::Error;
use std::{fmt, io};

/// An error that a handler or a publisher returns when another attempt cannot help: the message
/// becomes a dead letter at once, whatever [`Retry`](super::Retry) says, and those behind it in its
/// key go on.
///
/// ```
/// use hapax_postgres::{BoxError, GiveUp};
///
/// fn parse(payload: &[u8]) -> Result<u32, BoxError> {
///     let text = std::str::from_utf8(payload).map_err(GiveUp::because)?;
///     Ok(text.parse().map_err(GiveUp::because)?)
/// }
///
/// assert_eq!(parse(b"17").unwrap(), 17);
/// assert!(parse(b"x").unwrap_err().is::<GiveUp>());
/// ```
///
/// It is found anywhere in an error's chain of [causes](Error::source), so it may be wrapped. The
/// dead letter's text is the error's own, with its causes. A relay does not take it for an outage
/// of its broker.
#[derive(Debug)]
pub struct GiveUp {
    because: BoxError,
}

impl GiveUp {
    /// Returns an error with this cause: an error, or a text.
    pub fn because(cause: impl Into<BoxError>) -> Self {
        GiveUp { because: cause.into() }
    }
}

/// Returns true if an error, or one of its causes, says that trying again cannot help.
pub(super) fn is_hopeless(error: &(dyn Error + 'static)) -> bool {
    std::iter::successors(Some(error), |&error| error.source()).any(|error| {
        // The source of an `io::Error` is that of the error it wraps, so the wrapped error itself
        // is checked, too.
        let wrapped = error.downcast_ref::<io::Error>().and_then(|error| error.get_ref());
        error.is::<GiveUp>() || wrapped.is_some_and(|error| error.is::<GiveUp>())
    })
}

/// Displays the cause: this wrapper has nothing to add to it.
impl fmt::Display for GiveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.because.fmt(f)
    }
}

impl Error for GiveUp {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.because.source()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_found_behind_other_errors_and_says_what_its_cause_says() {
        let gone: BoxError = GiveUp::because("no such address").into();
        assert_eq!(gone.to_string(), "no such address");
        assert!(is_hopeless(&*gone));
        let wrapped: BoxError = io::Error::other(Wrapped(gone)).into();
        assert!(is_hopeless(&*wrapped) && !wrapped.is::<GiveUp>());
        assert!(is_hopeless(&io::Error::other(GiveUp::because("no such address"))));
        assert!(!is_hopeless(&io::Error::other("no such address")));
    }

    #[derive(Debug)]
    struct Wrapped(BoxError);

    impl fmt::Display for Wrapped {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("publishing")
        }
    }

    impl Error for Wrapped {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&*self.0)
        }
    }
}
