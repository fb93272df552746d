//! The answers of a handler of batches.

use crate::BoxError;
use std::fmt;

/// The answers of a handler of batches: all messages are done, or each message has a result of its
/// own, in the order of the batch.
///
/// ```
/// use hapax_message::{Answers, BoxError, GiveUp, Later};
///
/// fn all(readings: &[u32]) -> Answers {
///     println!("INSERT … SELECT unnest({readings:?})"); // all of them, or none
///     ().into()
/// }
///
/// fn each(readings: &[u32]) -> Answers {
///     let answer = |reading: &u32| match reading {
///         0 => Err(GiveUp::because("nothing to add").into()),
///         1_000.. => Err(Later::because("the limit of today").into()),
///         _ => Ok(()),
///     };
///     readings.iter().map(answer).collect::<Vec<Result<(), BoxError>>>().into()
/// }
/// # (all(&[1]), each(&[1]));
/// ```
pub struct Answers(Option<Vec<Result<(), BoxError>>>);

/// Says that all messages are done.
impl From<()> for Answers {
    fn from((): ()) -> Self {
        Answers(None)
    }
}

/// Says of each message that it is done, or the reason why it is not.
impl<E: Into<BoxError>> From<Vec<Result<(), E>>> for Answers {
    fn from(each: Vec<Result<(), E>>) -> Self {
        Answers(Some(each.into_iter().map(|answer| answer.map_err(Into::into)).collect()))
    }
}

impl Answers {
    /// Returns the answer for each of this many messages.
    ///
    /// # Errors
    ///
    /// A text, if there are answers for another number of messages.
    pub fn each(self, messages: usize) -> Result<Vec<Result<(), BoxError>>, String> {
        let each = self.0.unwrap_or_else(|| (0..messages).map(|_| Ok(())).collect());
        match each.len() {
            answers if answers == messages => Ok(each),
            answers => Err(format!("the handler was to answer for {messages} messages, and did for {answers}")),
        }
    }
}

impl fmt::Debug for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str("Answers(all are done)"),
            Some(each) => f.debug_tuple("Answers").field(each).finish(),
        }
    }
}
