//! What a server says of itself: its role, its state, and ways in which it forgets.

pub(super) mod info;
pub(super) mod role;
pub(super) mod warning;
pub(super) mod watch;
