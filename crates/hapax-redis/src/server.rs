//! A server by its own account: its role, its state, and ways in which it forgets.

pub(super) mod info;
pub(super) mod role;
pub(super) mod warning;
pub(super) mod watch;
