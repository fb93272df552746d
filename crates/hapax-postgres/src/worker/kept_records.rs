//! The messages of which something is kept when they are handled.

use crate::Message;

/// The parts that a [`Worker`](crate::Worker) keeps of messages that are handled, for
/// [`inbox::handled`](crate::inbox::handled). They go with the marks of its time, by
/// [`Retention::expire`](crate::Retention::expire): without calls of that, nothing is removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Keep {
    /// Nothing of any message.
    Nothing,
    /// Of messages that have a kind or a subject: who handled them, when, after how many attempts,
    /// with which result. Of others nothing, at no cost. The default.
    #[default]
    Described,
    /// All of every message, its content too, so that it can be
    /// [requeued](crate::inbox::requeue_handled).
    Messages,
}

impl Keep {
    /// Returns whether a record of this message has its content, too, if there is to be one.
    pub(crate) fn of(self, message: &Message) -> Option<bool> {
        let is_described = message.kind.is_some() || message.subject.is_some();
        match self {
            Keep::Messages => Some(true),
            Keep::Described if is_described => Some(false),
            Keep::Described | Keep::Nothing => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::plain;

    #[test]
    fn what_is_kept_depends_on_what_a_message_says() {
        let mut plain = plain();
        plain.source = Some("/orders".into());
        let (mut kind, mut subject) = (plain.clone(), plain.clone());
        kind.kind = Some("a".into());
        subject.subject = Some("a".into());
        for (keep, expected) in [
            (Keep::Nothing, [None; 3]),
            (Keep::default(), [None, Some(false), Some(false)]),
            (Keep::Messages, [Some(true); 3]),
        ] {
            assert_eq!([&plain, &kind, &subject].map(|message| keep.of(message)), expected, "{keep:?}");
        }
    }
}
