//! The events of messages that are counted.

hapax::counted! {
    /// The counts of a [`Consumer`](crate::Consumer) so far, in all its runs.
    ConsumerStats,
    pub(crate) Event in Events {
        /// Messages received, repetitions included.
        received: Received,
        /// Handlers that ended well, and messages whose effect a
        /// [probe](crate::OnTakeover::ask) has found.
        handled: Handled,
        /// Messages whose id was done already.
        duplicate: Duplicate,
        /// Messages whose id was in progress elsewhere.
        in_progress: InProgress,
        /// Handlers that failed, panics and time-outs included.
        failed: Failed,
        /// Handlers that panicked.
        panicked: Panicked,
        /// Handlers that were dropped, since they were not done within
        /// [`handler_timeout`](crate::ConsumerBuilder::handler_timeout).
        timed_out: TimedOut,
        /// Handlers that failed with [`GiveUp`](hapax_message::GiveUp), so that the message was put
        /// aside at once.
        gave_up: GaveUp,
        /// Batches that failed, and whose halves were handled each by itself.
        split: Split,
        /// Handlers that said [`Later`](crate::Later): these were no attempts.
        later: Later,
        /// Claims whose lease had expired before they were completed.
        lost: Lost,
        /// Messages whose id is that of another one, by their
        /// [fingerprints](crate::ConsumerBuilder::fingerprint_by).
        mismatch: Mismatch,
        /// Claims of messages of which an earlier claim is [in doubt](crate::Delivery::before).
        taken_over: TakenOver,
        /// Claims that were refused: too many in flight.
        refused: Refused,
        /// Claims, completions and flushes that the store could not do.
        store_error: StoreError,
        /// Messages admitted and handled whose completion could not be recorded, and that were
        /// acknowledged all the same.
        unrecorded: Unrecorded,
        /// Messages without an id, or with a blank one. By default they are put aside.
        missing: Missing,
        /// Messages that were given back to the broker, or wait here, to be tried again.
        retried: Retried,
        /// Messages put aside.
        dead_lettered: DeadLettered,
        /// Messages that had been put aside before, and came again since the broker had missed it.
        /// Those of an earlier run, or of a broker that gives deliveries no
        /// [names](crate::Source::sent_as), are among the dead letters a second time, and in
        /// `dead_lettered`.
        aside_again: AsideAgain,
        /// Messages acknowledged.
        acknowledged: Acknowledged,
        /// Messages whose handling was stopped by a deadline.
        abandoned: Abandoned,
        /// Calls of [`Source::extend`](crate::Source::extend) that failed, or took too long.
        unextended: Unextended,
    }
}
