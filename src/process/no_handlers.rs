//! The handlers of a system without forks, and of models: none.

use super::Rest;
use std::fs::File;
use std::sync::Arc;

pub(super) fn install() -> std::io::Result<()> {
    Ok(())
}

/// Does nothing: without forks nothing need be at rest.
pub(crate) fn at_rest_in_forks<R: Rest>(_: &Arc<R>) {}

pub(super) fn close_in_child(_: &File) {}

pub(super) fn do_not_close_in_child(_: &File) {}
