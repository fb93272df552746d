//! The labels of counts and metrics: kinds of requests, ends of claims, verdicts, tiers.

/// The kind of a request to a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Mark,
    Unmark,
    Claim,
    Complete,
    Release,
    Fail,
    Renew,
    LookUp,
    Record,
    Forget,
    // The engine's own requests: these bypass the breaker, and are no part of its statistics.
    Expire,
    Scan,
    Own,
}

impl RequestKind {
    #[cfg(feature = "metrics")]
    pub(crate) const ALL: [RequestKind; 13] = {
        use RequestKind::*;
        [Mark, Unmark, Claim, Complete, Release, Fail, Renew, LookUp, Record, Forget, Expire, Scan, Own]
    };

    pub(crate) fn name(self) -> &'static str {
        match self {
            RequestKind::Mark => "mark",
            RequestKind::Unmark => "unmark",
            RequestKind::Claim => "claim",
            RequestKind::Complete => "complete",
            RequestKind::Release => "release",
            RequestKind::Fail => "fail",
            RequestKind::Renew => "renew",
            RequestKind::LookUp => "look_up",
            RequestKind::Record => "record",
            RequestKind::Forget => "forget",
            RequestKind::Expire => "expire",
            RequestKind::Scan => "scan",
            RequestKind::Own => "own",
        }
    }

    pub(super) fn is_a_callers(self) -> bool {
        !matches!(self, RequestKind::Expire | RequestKind::Scan | RequestKind::Own)
    }
}

/// The end of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Completed,
    Released,
    Dropped,
    Failed,
    /// Its lease had expired.
    Lost,
    /// The store gave no certain answer.
    Unknown,
}

impl End {
    #[cfg(feature = "metrics")]
    pub(crate) const ALL: [End; 6] =
        [End::Completed, End::Released, End::Dropped, End::Failed, End::Lost, End::Unknown];

    #[cfg(feature = "metrics")]
    pub(crate) fn name(self) -> &'static str {
        match self {
            End::Completed => "completed",
            End::Released => "released",
            End::Dropped => "dropped",
            End::Failed => "failed",
            End::Lost => "lost",
            End::Unknown => "unknown",
        }
    }
}

/// The result of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    Renewed,
    Lost,
    Unknown,
}

impl Renewal {
    #[cfg(feature = "metrics")]
    pub(crate) const ALL: [Renewal; 3] = [Renewal::Renewed, Renewal::Lost, Renewal::Unknown];

    #[cfg(feature = "metrics")]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Renewal::Renewed => "renewed",
            Renewal::Lost => "lost",
            Renewal::Unknown => "unknown",
        }
    }
}

/// Labels of a verdict.
pub(crate) const VERDICTS: [&str; 3] = ["fresh", "duplicate", "in_progress"];

/// Labels of the tier that decided.
pub(crate) const TIERS: [&str; 4] = ["window", "history", "claims", "store"];
