//! The labels of counts and metrics: kinds of requests, ends of claims, results, verdicts, tiers.

/// Declares labels, with their names.
macro_rules! labels {
    ($(#[$doc:meta])* $labels:ident { $($(#[$about:meta])* $label:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $labels {
            $($(#[$about])* $label,)*
        }

        impl $labels {
            pub(super) const ALL: [$labels; [$($name),*].len()] = [$($labels::$label),*];

            pub(crate) fn name(self) -> &'static str {
                [$($name),*][self as usize]
            }
        }
    };
}

labels! {
    /// The kind of a request to a store.
    RequestKind {
        Mark = "mark",
        Unmark = "unmark",
        Claim = "claim",
        Complete = "complete",
        Release = "release",
        Fail = "fail",
        Renew = "renew",
        LookUp = "look_up",
        Record = "record",
        Forget = "forget",
        /// The engine's own requests, from here on: these bypass the breaker, and are no part of
        /// its statistics.
        Expire = "expire",
        Scan = "scan",
        Own = "own",
    }
}

impl RequestKind {
    pub(super) fn is_a_callers(self) -> bool {
        !matches!(self, RequestKind::Expire | RequestKind::Scan | RequestKind::Own)
    }
}

labels! {
    /// The end of a claim.
    End {
        Completed = "completed",
        Released = "released",
        Dropped = "dropped",
        Failed = "failed",
        /// Its lease had expired.
        Lost = "lost",
        /// The store gave no certain answer.
        Unknown = "unknown",
    }
}

labels! {
    /// The result of a renewal.
    Renewal {
        Renewed = "renewed",
        Lost = "lost",
        Unknown = "unknown",
    }
}

/// Labels of a call's result: first that it succeeded, then [`ErrorKind`](crate::ErrorKind) in its
/// order.
pub(super) const RESULTS: [&str; 6] = ["ok", "unavailable", "timeout", "conflict", "corrupt", "misconfigured"];

/// Labels of a verdict.
pub(super) const VERDICTS: [&str; 3] = ["fresh", "duplicate", "in_progress"];

/// Labels of the tier that decided.
pub(super) const TIERS: [&str; 4] = ["window", "history", "claims", "store"];
