//! Promises that a store can break: each one is a case that the suite must notice.

macro_rules! flaws {
    ($($(#[doc = $says:literal])+ $flaw:ident,)+) => {
        /// What is wrong with a store.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Flaw {
            /// Nothing.
            None,
            $($(#[doc = $says])+ $flaw,)+
        }

        impl Flaw {
            /// All but none.
            pub(super) const ALL: &[Flaw] = &[$(Flaw::$flaw),+];
        }
    };
}

flaws! {
    /// Whoever marks an id is told that it is fresh.
    MarksAreAlwaysFresh,
    /// Of two marks of one id in one batch, both are fresh.
    BatchesSeeOnlyWhatWasBefore,
    /// The last request's answer comes first.
    AnswersAreOutOfOrder,
    /// One request has no answer.
    AnswersAreMissing,
    /// An empty batch is an error.
    EmptyBatchesFail,
    /// A mark is made in two steps, between which another one may be.
    MarksRace,
    /// So is a claim.
    ClaimsRace,
    /// So is the claim of an id whose lease has expired.
    TakeoversRace,
    /// A mark that is asked for again is a duplicate of itself.
    MarksForgetAttempts,
    /// Whoever meets a mark is not told who has made it.
    DuplicatesDoNotSayWho,
    /// Whoever meets a mark is told of itself.
    DuplicatesNameTheAsker,
    /// A mark is taken back by whoever says so.
    AnybodyUnmarks,
    /// A mark that is taken back stays.
    UnmarkingDoesNothing,
    /// A claim is taken back like a mark.
    UnmarkingEndsClaims,
    /// A completed claim is taken back like a mark.
    UnmarkingForgetsWhatIsDone,
    /// A claim that is asked for again is in progress by itself.
    ClaimsForgetAttempts,
    /// A claim that is asked for again has what was left of its lease.
    AskedAgainLeasesAreAsBefore,
    /// A claim that is asked for again has another token.
    AskedAgainTokensAreOthers,
    /// A claim that is cancelled on its way is nobody's until its lease expires.
    CancelledClaimsAreNobodys,
    /// Each claim has the token 1.
    TokensStartAnew,
    /// Tokens have 64 bits.
    TokensAreTooLarge,
    /// A mark looks for completed ids only.
    MarksIgnoreClaims,
    /// A claim looks for completed ids only.
    ClaimsIgnoreClaims,
    /// A claim looks for claims only.
    ClaimsIgnoreWhatIsDone,
    /// An id is completed by whoever says so.
    AnybodyCompletes,
    /// An id is completed after its lease has expired, if nobody else has it.
    LateHoldersComplete,
    /// A completion that is asked for again is lost.
    CompletionsAreDoneOnce,
    /// A claim that was released goes on.
    ReleasesDoNothing,
    /// An id is released by whoever says so.
    AnybodyReleases,
    /// A claim is extended by whoever says so.
    AnybodyRenews,
    /// A claim has failed if anybody says so.
    AnybodyFails,
    /// A failure is a release.
    FailuresAreForgotten,
    /// A claim that has failed is still its holder's.
    FailuresEndNothing,
    /// A lease is no longer than it was.
    RenewalsDoNothing,
    /// A lease does not expire.
    LeasesDoNotEnd,
    /// What is completed is so until its lease would have ended.
    CompletionsLastForALease,
    /// What is marked is so for ever.
    MarksDoNotEnd,
    /// A time that is too long is the longest that can be.
    TimesAreClamped,
    /// Nobody is told how much longer.
    NoTimeIsLeft,
    /// A result of no bytes is no result.
    EmptyResultsAreNone,
    /// A result is cut after 64 KiB.
    ResultsAreCut,
    /// A result is text.
    ResultsAreText,
    /// Fingerprints are not kept.
    FingerprintsAreNotKept,
    /// Fingerprints are compared when the id is done.
    FingerprintsAreNotComparedInProgress,
    /// Fingerprints are compared until the id is done.
    FingerprintsAreNotComparedWhenDone,
    /// An id is the same in all scopes.
    ScopesAreIgnored,
    /// A scope and an id are one string, and nobody knows where the one ends.
    ScopesAndIdsAreJoined,
    /// Scopes are compared as a database compares text.
    ScopesIgnoreCase,
    /// Ids are compared as a database compares text.
    IdsIgnoreCase,
    /// Bytes that are no text are replaced by what is.
    IdsAreText,
    /// An id ends at a zero.
    IdsEndAtZero,
    /// Blanks around an id are no part of it.
    IdsAreTrimmed,
    /// An id has at most 40 bytes.
    LongIdsAreCut,
    /// Nothing is forgotten.
    ForgettingDoesNothing,
    /// What is in progress is not forgotten.
    ForgettingSparesClaims,
    /// What is completed is recorded no more.
    RecordsDoNotOverwrite,
    /// What is in progress is not recorded.
    RecordsSpareClaims,
    /// Whoever looks for an id leaves it behind.
    LookingMarks,
    /// Expiry removes what is not over.
    ExpiryRemovesWhatIsLive,
    /// Expiry does nothing.
    ExpiryRemovesNothing,
    /// Expiry removes all that there is at a time.
    ExpiryHasNoLimit,
    /// Expiry always wants to go on.
    ExpiryDoesNotEnd,
    /// One id of each page is not in it.
    ScansMissSome,
    /// A scan finds what is in progress.
    ScansShowClaims,
    /// A scan finds what is over.
    ScansShowWhatIsOver,
    /// A scan begins again where it ends.
    ScansDoNotEnd,
    /// A scan is one page.
    ScansHaveNoLimit,
}
