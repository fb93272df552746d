//! The events of messages that are counted.

/// An event of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Received,
    Handled,
    Duplicate,
    InProgress,
    Failed,
    Panicked,
    TimedOut,
    GaveUp,
    Later,
    Lost,
    Refused,
    StoreError,
    Unrecorded,
    Missing,
    Retried,
    DeadLettered,
    AsideAgain,
    Acknowledged,
    Abandoned,
    Unextended,
}

impl Event {
    pub(super) const ALL: [Event; 20] = {
        use Event::*;
        [
            Received,
            Handled,
            Duplicate,
            InProgress,
            Failed,
            Panicked,
            TimedOut,
            GaveUp,
            Later,
            Lost,
            Refused,
            StoreError,
            Unrecorded,
            Missing,
            Retried,
            DeadLettered,
            AsideAgain,
            Acknowledged,
            Abandoned,
            Unextended,
        ]
    };

    /// Returns its name in metrics and traces.
    #[cfg(feature = "metrics")]
    pub(super) fn name(self) -> &'static str {
        match self {
            Event::Received => "received",
            Event::Handled => "handled",
            Event::Duplicate => "duplicate",
            Event::InProgress => "in_progress",
            Event::Failed => "failed",
            Event::Panicked => "panicked",
            Event::TimedOut => "timed_out",
            Event::GaveUp => "gave_up",
            Event::Later => "later",
            Event::Lost => "lost",
            Event::Refused => "refused",
            Event::StoreError => "store_error",
            Event::Unrecorded => "unrecorded",
            Event::Missing => "missing",
            Event::Retried => "retried",
            Event::DeadLettered => "dead_lettered",
            Event::AsideAgain => "aside_again",
            Event::Acknowledged => "acknowledged",
            Event::Abandoned => "abandoned",
            Event::Unextended => "unextended",
        }
    }
}
