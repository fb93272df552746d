//! Errors of handlers, and the meaning of each for the next attempt.

use hapax_message::{GiveUp, Later, causes};
use std::error::Error;
use std::io;
use std::io::ErrorKind::*;
use std::sync::Arc;
use std::time::Duration;

/// An error of any type, with its text.
pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

/// The meaning of an error for the next attempt at its message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// The attempt has failed, and the next one may help.
    #[default]
    Attempt,
    /// It was no attempt: as [`Later`] says, after this long, if it is given.
    Later(Option<Duration>),
    /// No attempt can help: as [`GiveUp`] says.
    GiveUp,
}

impl OnError {
    /// Returns [`Later`](OnError::Later) for an error of the network, or of a store that is
    /// unavailable, and [`Attempt`](OnError::Attempt) for any other: for
    /// [`on_error`](crate::ConsumerBuilder::on_error), where handlers connect to what all messages
    /// need, and to nothing that a message names. (A message that names a host that is gone would
    /// come again for ever.)
    ///
    /// ```
    /// use hapax_stream::OnError;
    /// use std::io::{Error, ErrorKind};
    ///
    /// assert_eq!(OnError::common(&Error::from(ErrorKind::ConnectionRefused)), OnError::Later(None));
    /// assert_eq!(OnError::common(&Error::from(ErrorKind::InvalidData)), OnError::Attempt);
    /// ```
    pub fn common(error: &(dyn Error + 'static)) -> Self {
        let of_network = error.downcast_ref::<io::Error>().is_some_and(|error| {
            matches!(
                error.kind(),
                ConnectionRefused
                    | ConnectionReset
                    | ConnectionAborted
                    | NotConnected
                    | BrokenPipe
                    | TimedOut
                    | HostUnreachable
                    | NetworkUnreachable
                    | NetworkDown
            )
        });
        let of_store = error.downcast_ref::<hapax_store::StoreError>().is_some_and(|error| error.kind().is_transient());
        if of_network || of_store { OnError::Later(None) } else { OnError::Attempt }
    }
}

/// A function that returns the meaning of an error in a handler's chain of them.
pub(crate) type OnErrorBy = Arc<dyn Fn(&(dyn Error + 'static)) -> OnError + Send + Sync>;

/// A handler's error: its text, and what it says about the next attempt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unhandled {
    pub(crate) why: String,
    pub(crate) then: OnError,
}

impl Unhandled {
    /// Reads an error: the first of its chain that says anything decides.
    pub(crate) fn of(error: &(dyn Error + 'static), by: Option<&OnErrorBy>) -> Self {
        let errors: Vec<_> = causes(error).collect();
        let then = errors.iter().find_map(|error| said(*error)).or_else(|| {
            let by = by?;
            errors.iter().map(|error| by(*error)).find(|then| *then != OnError::Attempt)
        });
        Unhandled { why: error.to_string(), then: then.unwrap_or_default() }
    }
}

/// Returns what an error says that is made to say it.
fn said(error: &(dyn Error + 'static)) -> Option<OnError> {
    match error.downcast_ref::<Later>() {
        Some(later) => Some(OnError::Later(later.wait())),
        None => error.is::<GiveUp>().then_some(OnError::GiveUp),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt;

    #[derive(Debug)]
    struct Wrapped(BoxError);

    impl fmt::Display for Wrapped {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("handling")
        }
    }

    impl Error for Wrapped {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&*self.0)
        }
    }

    fn then(error: impl Into<BoxError>) -> OnError {
        Unhandled::of(&*error.into(), None).then
    }

    #[test]
    fn what_an_error_says_is_found_as_it_is_and_behind_others() {
        let give_up = || GiveUp::because("no such order");
        let said = Unhandled::of(&give_up(), None);
        assert_eq!(said, Unhandled { why: "no such order".to_owned(), then: OnError::GiveUp });
        let wrapped = Unhandled::of(&Wrapped(give_up().into()), None);
        assert_eq!(wrapped, Unhandled { why: "handling".to_owned(), then: OnError::GiveUp });
        assert_eq!(then(io::Error::other(give_up())), OnError::GiveUp);
        assert_eq!(then(io::Error::other(Wrapped(give_up().into()))), OnError::GiveUp);
        let minute = Duration::from_secs(60);
        assert_eq!(then(io::Error::other(Later::because("away"))), OnError::Later(None));
        assert_eq!(then(Wrapped(Later::because(give_up()).after(minute).into())), OnError::Later(Some(minute)));
        let others: [BoxError; 3] =
            ["no such order".into(), io::Error::other("no such order").into(), Wrapped("away".into()).into()];
        for other in others {
            assert_eq!(then(other), OnError::Attempt);
        }
    }

    #[test]
    fn other_errors_are_asked_about() {
        let by: OnErrorBy = Arc::new(OnError::common);
        let then = |error: BoxError| Unhandled::of(&*error, Some(&by)).then;
        let refused = || io::Error::from(ConnectionRefused);
        assert_eq!(then(refused().into()), OnError::Later(None));
        assert_eq!(then(Wrapped(refused().into()).into()), OnError::Later(None));
        assert_eq!(then(GiveUp::because(refused()).into()), OnError::GiveUp, "it says so itself");
        assert_eq!(then(io::Error::from(InvalidData).into()), OnError::Attempt);
        let of_store = |kind| hapax_store::StoreError::new(kind, "redis", "no answer");
        assert_eq!(then(of_store(hapax_store::ErrorKind::Timeout).into()), OnError::Later(None));
        assert_eq!(then(of_store(hapax_store::ErrorKind::Corrupt).into()), OnError::Attempt);
    }
}
