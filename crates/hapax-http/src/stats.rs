//! Counts of requests by their outcome.

hapax::counted! {
    /// Counts of the requests that a layer has covered since it was built, and of the current ones.
    ///
    /// ```
    /// # fn watch(layer: &hapax_http::IdempotencyLayer<hapax_store::InMemoryStore>) {
    /// let stats = layer.stats();
    /// if stats.unrecorded > 0 {
    ///     eprintln!("{} requests that were handled may be handled again", stats.unrecorded);
    /// }
    /// # }
    /// ```
    HttpStats,
    pub(crate) Event in Counters {
        /// Handled, and recorded as done.
        executed: Executed,
        /// Handled, and not to be recorded: a status that is not stored, an error, a panic, a
        /// time-out. The key was released.
        released: Released,
        /// Of those released: refused where nothing had begun.
        not_begun: NotBegun,
        /// Handled, and answered before the store had recorded or released that, because it took
        /// longer than a second.
        answered_early: AnsweredEarly,
        /// Answered that the key has expired ([`Problem::KeyExpired`](super::Problem::KeyExpired)).
        expired: Expired,
        /// Handled, but the store did not record that, or the lease was lost: a retry may be
        /// handled again. Worth an alarm.
        unrecorded: Unrecorded,
        /// Handled and recorded as done, but the response was too large to be stored.
        not_kept: NotKept,
        /// Answered with a stored response.
        replayed: Replayed,
        /// Answered by one of the layer's own problems.
        refused: Refused,
        /// Let through without a key.
        passed: Passed,
        /// Of those refused: because the scope was at its limit
        /// ([`Problem::QuotaExceeded`](super::Problem::QuotaExceeded)).
        over_quota: OverQuota,
    }
    /// Current requests whose bodies are coming.
    reading,
    /// Current requests whose keys are claimed or waited for, or whose handlers run.
    in_flight,
    /// Current bytes of requests' and responses' bodies in memory.
    buffered_bytes,
}
