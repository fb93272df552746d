//! The answers of a handler of batches.

use super::failure::{BoxError, OnError, OnErrorBy, Unhandled};
use std::fmt;

/// The answers of a handler of [batches](crate::Consumer::run_batches): all messages are done, or
/// each message has a result of its own, in the order of the batch.
///
/// ```
/// use hapax_stream::{Answers, Delivery, GiveUp, Later};
/// use std::error::Error;
///
/// async fn all(batch: Vec<Delivery<u32>>) -> Result<(), std::io::Error> {
///     // … one transaction with all of them: it is committed, or fails …
///     Ok(())
/// }
///
/// type Each = Vec<Result<(), Box<dyn Error + Send + Sync>>>;
///
/// async fn each(batch: Vec<Delivery<u32>>) -> Result<Each, std::io::Error> {
///     let answer = |delivery: &Delivery<u32>| match **delivery {
///         0 => Err(GiveUp::because("nothing to add").into()),
///         1_000.. => Err(Later::because("the limit of today").into()),
///         _ => Ok(()),
///     };
///     Ok(batch.iter().map(answer).collect())
/// }
/// # fn check<A: Into<Answers>>(_: impl AsyncFn(Vec<Delivery<u32>>) -> Result<A, std::io::Error>) {}
/// # check(all);
/// # check(each);
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
    /// Returns the errors, with the places of their messages in a batch of this many.
    pub(crate) fn failures(
        self,
        messages: usize,
        by: Option<&OnErrorBy>,
    ) -> Result<Vec<(usize, Unhandled)>, Unhandled> {
        let Some(each) = self.0 else { return Ok(Vec::new()) };
        if each.len() != messages {
            let why = format!("the handler was to answer for {messages} messages, and did for {}", each.len());
            return Err(Unhandled { why, then: OnError::Attempt });
        }
        let errors = each.into_iter().enumerate().filter_map(|(at, answer)| Some((at, answer.err()?)));
        Ok(errors.map(|(at, error)| (at, Unhandled::of(&*error, by))).collect())
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
