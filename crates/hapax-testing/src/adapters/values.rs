//! The ids that a closure takes, and the answers that it gives.

use hapax::Outcome;

/// An id as a closure takes it, made of the number of a workload. Different numbers make different
/// ids.
///
/// ```
/// use hapax_testing::adapters::SubjectId;
///
/// assert_eq!(u64::of_number(17), 17);
/// assert_eq!(String::of_number(17), "id-17");
/// assert_eq!(Vec::<u8>::of_number(17), [0, 0, 0, 0, 0, 0, 0, 17]);
/// ```
pub trait SubjectId {
    /// Returns the id with this number.
    fn of_number(number: u64) -> Self;
}

/// The number itself.
impl SubjectId for u64 {
    fn of_number(number: u64) -> Self {
        number
    }
}

/// The number in decimal, behind `id-`: texts of different lengths.
impl SubjectId for String {
    fn of_number(number: u64) -> Self {
        format!("id-{number}")
    }
}

/// The number in eight bytes, the most significant first: mostly no text.
impl SubjectId for Vec<u8> {
    fn of_number(number: u64) -> Self {
        number.to_be_bytes().into()
    }
}

/// An answer as a closure gives it.
///
/// ```
/// use hapax::Outcome;
/// use hapax_testing::adapters::Answer;
///
/// assert_eq!(true.outcome(), Some(Outcome::Fresh)); // `insert`, `SET NX`: true if it is new
/// assert_eq!(Ok::<bool, std::io::Error>(false).outcome(), Some(Outcome::Duplicate));
/// assert_eq!(Err::<bool, _>(std::io::Error::other("away")).outcome(), None);
/// ```
pub trait Answer {
    /// Returns the outcome; `None` if there was no answer: then the check may have happened, or
    /// may still happen, or not.
    fn outcome(self) -> Option<Outcome>;
}

/// True: the id is fresh.
impl Answer for bool {
    fn outcome(self) -> Option<Outcome> {
        Some(if self { Outcome::Fresh } else { Outcome::Duplicate })
    }
}

impl Answer for Outcome {
    fn outcome(self) -> Option<Outcome> {
        Some(self)
    }
}

/// `None`: there was no answer.
impl<A: Answer> Answer for Option<A> {
    fn outcome(self) -> Option<Outcome> {
        self.and_then(A::outcome)
    }
}

/// An error: there was no answer.
impl<A: Answer, E> Answer for Result<A, E> {
    fn outcome(self) -> Option<Outcome> {
        self.ok().and_then(A::outcome)
    }
}
