//! Errors that say that another attempt cannot help.

use std::any::Any;
use std::error::Error;
use std::{fmt, io};

/// An error of any type, with its text.
pub(super) type BoxError = Box<dyn Error + Send + Sync>;

/// An error that a handler returns when another attempt cannot help: the message is put aside at
/// once, whatever [`max_attempts`](super::ConsumerBuilder::max_attempts) says.
///
/// ```
/// use hapax_stream::GiveUp;
/// use std::error::Error;
///
/// fn parse(payload: &[u8]) -> Result<u32, Box<dyn Error + Send + Sync>> {
///     let text = std::str::from_utf8(payload).map_err(GiveUp::because)?;
///     Ok(text.parse().map_err(GiveUp::because)?)
/// }
///
/// assert_eq!(parse(b"17").unwrap(), 17);
/// assert!(parse(b"x").unwrap_err().is::<GiveUp>());
/// ```
///
/// A handler returns it as its error, or boxed, as `Box<dyn Error>`, also with `Send` and `Sync`:
/// then it is found anywhere in the error's chain of [causes](Error::source). In an error of
/// another type it is not found, since consumers take errors of any type that can be displayed. A
/// [`Router`](super::Router) boxes what its handlers return, and finds it in all of them.
#[derive(Debug)]
pub struct GiveUp {
    because: BoxError,
}

impl GiveUp {
    /// Returns an error with this cause: an error, or a text.
    pub fn because(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        GiveUp { because: cause.into() }
    }
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

/// A handler's error: its text, and whether another attempt can help.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unhandled {
    pub(super) why: String,
    pub(super) gives_up: bool,
}

impl Unhandled {
    pub(super) fn of<E: fmt::Display + 'static>(error: &E) -> Self {
        Unhandled { why: error.to_string(), gives_up: gives_up(error) }
    }
}

/// Returns true if an error of any type is one that gives up, as far as its type is known here.
fn gives_up(error: &dyn Any) -> bool {
    let boxed: [Option<&(dyn Error + 'static)>; 4] = [
        error.downcast_ref::<BoxError>().map(|error| &**error as _),
        error.downcast_ref::<Box<dyn Error + Send>>().map(|error| &**error as _),
        error.downcast_ref::<Box<dyn Error>>().map(|error| &**error),
        error.downcast_ref::<io::Error>().map(|error| error as _),
    ];
    error.is::<GiveUp>() || boxed.into_iter().flatten().any(is_hopeless)
}

fn is_hopeless(error: &(dyn Error + 'static)) -> bool {
    std::iter::successors(Some(error), |&error| error.source()).any(|error| {
        // The source of an `io::Error` is that of the error it wraps, so the wrapped error itself
        // is checked, too.
        let wrapped = error.downcast_ref::<io::Error>().and_then(|error| error.get_ref());
        error.is::<GiveUp>() || wrapped.is_some_and(|error| error.is::<GiveUp>())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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

    fn give_up() -> GiveUp {
        GiveUp::because("no such order")
    }

    #[test]
    fn it_is_found_as_it_is_boxed_and_behind_others() {
        assert_eq!(Unhandled::of(&give_up()), Unhandled { why: "no such order".to_owned(), gives_up: true });
        let boxed: BoxError = give_up().into();
        assert!(Unhandled::of(&boxed).gives_up);
        let sendable: Box<dyn Error + Send> = Box::new(give_up());
        assert!(Unhandled::of(&sendable).gives_up);
        let local: Box<dyn Error> = Box::new(Wrapped(boxed));
        assert_eq!(Unhandled::of(&local), Unhandled { why: "handling".to_owned(), gives_up: true });
        assert!(Unhandled::of(&io::Error::other(give_up())).gives_up);
        let behind: BoxError = io::Error::other(Wrapped(give_up().into())).into();
        assert!(Unhandled::of(&behind).gives_up);
    }

    #[test]
    fn no_other_error_gives_up() {
        let boxed: BoxError = "no such order".into();
        assert!(!Unhandled::of(&boxed).gives_up && !Unhandled::of(&"no such order").gives_up);
        assert!(!Unhandled::of(&io::Error::other("no such order")).gives_up);
    }
}
