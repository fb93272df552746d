//! The places where attempts at a message are counted.

use hapax_store::SideRecord;

/// The place where the attempts at a message are counted.
pub(crate) enum Counting {
    /// Here: this many have failed before. The broker does not count deliveries, or there is no
    /// claim under which the store could be told. If there is, its note says whether the message
    /// was put aside.
    Here(u32, Option<SideRecord>),
    /// In the store, if this one fails: this is the broker's first delivery of the message.
    WhenFailed(SideRecord),
    /// In the store, before it begins: an earlier delivery may have been tried.
    Before(SideRecord),
}
