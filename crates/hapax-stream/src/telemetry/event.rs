//! The events of messages that are counted.

macro_rules! events {
    ($($event:ident = $name:literal,)*) => {
        /// An event of a message.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Event {
            $($event,)*
        }

        impl Event {
            pub(crate) const ALL: [Event; [$($name),*].len()] = [$(Event::$event),*];

            /// Returns its name in metrics and traces.
            #[cfg(feature = "metrics")]
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Event::$event => $name,)*
                }
            }
        }
    };
}

events! {
    Received = "received",
    Handled = "handled",
    Duplicate = "duplicate",
    InProgress = "in_progress",
    Failed = "failed",
    Panicked = "panicked",
    TimedOut = "timed_out",
    GaveUp = "gave_up",
    Later = "later",
    Lost = "lost",
    Refused = "refused",
    StoreError = "store_error",
    Unrecorded = "unrecorded",
    Missing = "missing",
    Retried = "retried",
    DeadLettered = "dead_lettered",
    AsideAgain = "aside_again",
    Acknowledged = "acknowledged",
    Abandoned = "abandoned",
    Unextended = "unextended",
}
