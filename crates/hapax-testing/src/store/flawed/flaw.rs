//! Promises that a store can break: each one is a case that the suite must notice.

macro_rules! flaws {
    ($($(#[doc = $says:literal])+ $flaw:ident $(=> $case:literal)?,)+) => {
        /// The flaw of a store.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(in super::super) enum Flaw {
            /// No flaw.
            None,
            $($(#[doc = $says])+ $flaw,)+
        }

        impl Flaw {
            /// All flaws.
            pub(in super::super) const ALL: &[Flaw] = &[$(Flaw::$flaw),+];

            /// Returns the case that was written for this flaw, if one was.
            pub(in super::super) fn meant(self) -> Option<&'static str> {
                match self {
                    $($(Flaw::$flaw => Some($case),)?)+
                    _ => None,
                }
            }
        }
    };
}

flaws! {
    /// Every mark of an id is told that it is fresh.
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
    /// A claim is made in two such steps.
    ClaimsRace,
    /// The claim of an id whose lease has expired is made in two such steps.
    TakeoversRace,
    /// A mark that is repeated is a duplicate of itself.
    MarksForgetAttempts,
    /// A caller that meets a mark is not told who has made it.
    DuplicatesDoNotSayWho,
    /// A caller that meets a mark is told its own attempt.
    DuplicatesNameTheAsker,
    /// A mark is taken back by any attempt.
    AnybodyUnmarks,
    /// A mark that is taken back stays.
    UnmarkingDoesNothing,
    /// A claim is taken back like a mark.
    UnmarkingEndsClaims,
    /// A completed claim is taken back like a mark.
    UnmarkingForgetsWhatIsDone,
    /// A claim that is repeated is in progress by itself.
    ClaimsForgetAttempts,
    /// A claim that is repeated has only the rest of its lease.
    AskedAgainLeasesAreAsBefore,
    /// A claim that is repeated has another token.
    AskedAgainTokensAreOthers,
    /// A claim that is cancelled on its way has no owner until its lease expires.
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
    /// An id is completed by any caller.
    AnybodyCompletes,
    /// An id is completed after its lease has expired, if no other caller has it.
    LateHoldersComplete,
    /// A completion that is repeated is lost.
    CompletionsAreDoneOnce,
    /// A claim that was released goes on.
    ReleasesDoNothing,
    /// An id is released by any caller.
    AnybodyReleases,
    /// A claim is extended by any caller.
    AnybodyRenews,
    /// A claim is failed by any caller.
    AnybodyFails,
    /// A failure is a release.
    FailuresAreForgotten,
    /// A claim that has failed is still its holder's.
    FailuresEndNothing,
    /// A lease is no longer than it was.
    RenewalsDoNothing,
    /// A lease does not expire.
    LeasesDoNotEnd,
    /// A completed id is so until its lease would have ended.
    CompletionsLastForALease,
    /// A marked id is so for ever.
    MarksDoNotEnd,
    /// A time that is too long is replaced by the longest possible one.
    TimesAreClamped,
    /// No answer contains the remaining time.
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
    /// A scope and an id are one string, without a boundary between them.
    ScopesAndIdsAreJoined,
    /// Scopes are compared as a database compares text.
    ScopesIgnoreCase,
    /// Ids are compared as a database compares text.
    IdsIgnoreCase,
    /// Bytes that are not text are replaced by text.
    IdsAreText,
    /// An id ends at a zero.
    IdsEndAtZero,
    /// Blanks around an id are no part of it.
    IdsAreTrimmed,
    /// An id has at most 40 bytes.
    LongIdsAreCut,
    /// Nothing is forgotten.
    ForgettingDoesNothing,
    /// An id in progress is not forgotten.
    ForgettingSparesClaims,
    /// A completed id is not recorded again.
    RecordsDoNotOverwrite,
    /// An id in progress is not recorded.
    RecordsSpareClaims,
    /// A look-up of an id leaves it behind.
    LookingMarks,
    /// Expiry removes records that have not expired.
    ExpiryRemovesWhatIsLive,
    /// Expiry does nothing.
    ExpiryRemovesNothing,
    /// Expiry removes everything at a time.
    ExpiryHasNoLimit,
    /// Expiry always wants to go on.
    ExpiryDoesNotEnd,
    /// One id of each page is not in it.
    ScansMissSome,
    /// A scan finds ids in progress.
    ScansShowClaims,
    /// A scan finds expired ids.
    ScansShowWhatIsOver,
    /// A scan begins again where it ends.
    ScansDoNotEnd,
    /// A scan is one page.
    ScansHaveNoLimit,
    /// A lease ends a second early.
    LeasesEndASecondEarly => "a lease holds until its end, and no longer",
    /// A lease ends a nanosecond early.
    LeasesEndANanosecondEarly => "a lease holds until its end, and no longer",
    /// A lease still holds at its end.
    LeasesLastANanosecondLonger => "a lease holds until its end, and no longer",
    /// An id whose lease has expired is forgotten as if it were there.
    ForgettingFindsWhatIsOver => "a lease holds until its end, and no longer",
    /// A claim is renewed up to four seconds after its lease has expired.
    RenewalsRevive => "a claim whose lease has expired is not revived, though nobody took it",
    /// A renewal for less than what is left does nothing.
    RenewalsOnlyLengthen => "a renewed lease counts from the renewal, also if it is shorter",
    /// A failure ends a second early.
    FailuresEndASecondEarly => "a failure lasts until its end, and no longer",
    /// A retention ends a second early.
    RetentionsEndASecondEarly => "a retention lasts until its end, and no longer",
    /// A retention ends a nanosecond early.
    RetentionsEndANanosecondEarly => "a retention lasts until its end, and no longer",
    /// A retention lasts two seconds longer.
    RetentionsLastTwoSecondsLonger => "a mark is fresh once",
    /// A retention still holds at its end.
    RetentionsLastANanosecondLonger => "a retention lasts until its end, and no longer",
    /// A claim that has failed is renewed.
    FailedClaimsAreRenewed => "a claim that has failed is nobody's",
    /// The fingerprint of a claim is gone when it has failed.
    FailuresForgetFingerprints => "a claim that has failed is nobody's",
    /// A claim that is repeated without a fingerprint has none.
    AskedAgainClaimsLoseTheirFingerprints => "asked again, a claim gets the same answer",
    /// A completion that is repeated replaces the result.
    CompletionsAskedAgainOverwrite => "asked again, a completion changes nothing",
    /// A completion that is repeated extends the retention.
    CompletionsAskedAgainExtend => "asked again, a completion changes nothing",
    /// A note beside an id is kept as its record.
    NotesAreRecords => "a note is not its id",
    /// A record without a result leaves the earlier one.
    RecordsKeepResults => "a record replaces the whole of what was there",
    /// A record without a fingerprint leaves the earlier one.
    RecordsKeepFingerprints => "a record replaces the whole of what was there",
    /// A record for less than what is left extends nothing, and shortens nothing.
    RecordsKeepLongerRetentions => "a record replaces the whole of what was there",
    /// After a release, the next claim has the same token.
    TokensComeAgainAfterARelease => "no token is given twice: after a release",
    /// After the clean-up of what is over, the next claim has the same token.
    TokensComeAgainAfterTheCleanUp => "no token is given twice: after a release",
    /// After a forget of an id in progress, its next claim has the same token.
    TokensComeAgainAfterAForget => "no token is given twice: after a forget",
    /// After a record of an id in progress, its next claim has the same token.
    TokensComeAgainAfterARecord => "no token is given twice: after a record and a forget",
    /// After a completion and a forget, the next claim has the same token.
    TokensComeAgainAfterACompletion => "no token is given twice: after a completion and a forget",
    /// After the end of a lease, the next claim has the same token.
    TokensComeAgainAfterTheEndOfALease => "no token is given twice: after the end of a lease",
    /// A caller that is refused is not told who has the id.
    RefusalsNameNobody => "who is refused is told who has it",
    /// A caller that takes a claim over is not told.
    TakeoversAreNotTold => "who takes over is told of the first claim in doubt",
    /// A caller that takes a claim over is told of the last one in doubt.
    TakeoversNameTheLast => "who takes over is told of the first claim in doubt",
    /// The holder of a claim in doubt is nobody.
    TakeoversNameNobody => "who takes over is told of the first claim in doubt",
    /// A release ends all doubt.
    ReleasesEndDoubt => "who takes over is told of the first claim in doubt",
    /// A failure leaves a doubt.
    ReportedEndsAreDoubted => "an end that was reported leaves no doubt",
    /// Doubt ends a second early.
    DoubtEndsASecondEarly => "doubt lasts for its time, and no longer",
    /// Doubt does not end.
    DoubtDoesNotEnd => "doubt lasts for its time, and no longer",
    /// The clean-up ends doubt.
    ExpiryEndsDoubt => "doubt lasts for its time, and no longer",
    /// A claim in doubt is not forgotten.
    ForgettingSparesDoubt => "what is in doubt counts as nothing else",
}
