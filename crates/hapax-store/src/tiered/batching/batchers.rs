//! One batcher for each kind of request and node, and one single flight for each kind that has one.

use super::answers::SharedAnswer;
use super::batcher::{Batcher, QueueOptions};
use super::operation::Operation;
use super::operations::*;
use crate::tiered::observe::RequestKind;
use crate::tiered::single_flight::SingleFlight;

/// A kind of request with its batcher.
pub(crate) trait Batched: Operation {
    /// Returns the batcher in which these requests wait.
    fn batcher(batchers: &Batchers) -> &Batcher<Self>;

    /// Returns the flights of these requests, if concurrent ones for one id share one.
    fn single_flight(_all: &SingleFlights) -> Option<&SingleFlight<SharedAnswer<Self>>> {
        None
    }
}

macro_rules! batchers {
    ($($batcher:ident: $operation:ty $(, flying as $flights:ident)?;)*) => {
        /// The batchers of a node.
        pub(crate) struct Batchers {
            $($batcher: Batcher<$operation>,)*
        }

        impl Batchers {
            pub(super) fn new(options: &QueueOptions) -> Self {
                Batchers { $($batcher: Batcher::new(options),)* }
            }

            /// Closes all batchers: no further request is let in.
            pub(super) fn close(&self) {
                $(self.$batcher.close();)*
            }

            /// Returns the number of callers' requests that wait or are under way.
            pub(crate) fn len(&self) -> usize {
                0 $(+ callers_len(&self.$batcher))*
            }
        }

        $(impl Batched for $operation {
            fn batcher(batchers: &Batchers) -> &Batcher<Self> {
                &batchers.$batcher
            }

            $(fn single_flight(all: &SingleFlights) -> Option<&SingleFlight<SharedAnswer<Self>>> {
                Some(&all.$flights)
            })?
        })*
    };
}

batchers! {
    marks: Marks, flying as marks;
    unmarks: Unmarks;
    claims: Claims, flying as claims;
    completions: Completions;
    releases: Releases;
    failures: Failures;
    renewals: Renewals;
    look_ups: LookUps, flying as look_ups;
    records: Records;
    forgets: Forgets;
}

fn callers_len<O: Operation>(batcher: &Batcher<O>) -> usize {
    match O::KIND {
        // No caller asks to take a mark back.
        RequestKind::Unmark => 0,
        _ => batcher.len(),
    }
}

/// The ids that are being requested, for all nodes.
#[derive(Default)]
pub(crate) struct SingleFlights {
    marks: SingleFlight<SharedAnswer<Marks>>,
    claims: SingleFlight<SharedAnswer<Claims>>,
    look_ups: SingleFlight<SharedAnswer<LookUps>>,
}
