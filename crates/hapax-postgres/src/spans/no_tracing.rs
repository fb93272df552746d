//! Stands in for the spans without the feature `tracing`.

use crate::Message;

pub(super) fn handling<F: Future>(_: &Message, _: Option<&str>, handling: F) -> F {
    handling
}

pub(super) fn publishing<F: Future>(_: &Message, publishing: F) -> F {
    publishing
}

pub(super) fn publishing_batch<F: Future>(_: &[Message], publishing: F) -> F {
    publishing
}
