//! Messages whose effect may be there already: an earlier claim of theirs is in doubt.

use super::delivery::Delivery;
use super::handler::Handler;
use std::fmt;
use std::sync::Arc;

/// The effect of a message on the other side, as a probe finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It is there: the message is done, without a call of the handler.
    There,
    /// It is not there: the handler is called.
    Missing,
    /// It cannot be told now: the message comes again later, and no attempt is counted.
    Unknown,
}

/// The treatment of a message of which an earlier claim is [in doubt](Delivery::before).
#[non_exhaustive]
pub enum OnTakeover<M> {
    /// It is handled: its handler may ask [`before`](Delivery::before) itself.
    Run,
    /// The other side is asked first; see [`ask`](OnTakeover::ask).
    Ask(Probe<M>),
    /// It is [put aside](crate::Source::dead_letter), unhandled, and its claim stays in doubt: for
    /// people, who look, and forget the id if the message is to be handled when it is sent anew.
    Leave,
}

/// A function that looks for the effect of a message.
pub struct Probe<M>(pub(super) Handler<Delivery<M>, Effect>);

impl<M> OnTakeover<M> {
    /// Returns the treatment by a probe: it asks the other side whether the effect of the message
    /// is there, by its id. A probe that panics, or takes longer than a
    /// [handler](crate::ConsumerBuilder::handler_timeout) may, does not know.
    ///
    /// ```
    /// use hapax_stream::{Delivery, Effect, OnTakeover};
    ///
    /// struct Mail { id: String }
    /// # async fn was_sent(_: &str) -> Result<bool, std::io::Error> { Ok(true) }
    ///
    /// let by_the_provider = OnTakeover::ask(|mail: Delivery<Mail>| async move {
    ///     match was_sent(&mail.id).await {
    ///         Ok(true) => Effect::There,
    ///         Ok(false) => Effect::Missing,
    ///         Err(_) => Effect::Unknown,
    ///     }
    /// });
    /// ```
    ///
    /// "Missing" must mean that it will not come any more: a request that was sent before the crash
    /// may still be on its way. Ask a little later than the other side may take.
    pub fn ask<P, F>(probe: P) -> Self
    where
        P: Fn(Delivery<M>) -> F + Send + Sync + 'static,
        F: Future<Output = Effect> + Send + 'static,
    {
        let ask = move |delivery| {
            let asked = probe(delivery);
            Box::pin(async move { Ok(asked.await) }) as _
        };
        OnTakeover::Ask(Probe(Arc::new(ask)))
    }
}

impl<M> Clone for OnTakeover<M> {
    fn clone(&self) -> Self {
        match self {
            OnTakeover::Run => OnTakeover::Run,
            OnTakeover::Ask(Probe(ask)) => OnTakeover::Ask(Probe(Arc::clone(ask))),
            OnTakeover::Leave => OnTakeover::Leave,
        }
    }
}

impl<M> fmt::Debug for OnTakeover<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OnTakeover::Run => "Run",
            OnTakeover::Ask(_) => "Ask(a probe)",
            OnTakeover::Leave => "Leave",
        })
    }
}
