//! The bytes of segments and of their manifest. Pure.

pub(super) mod filter;
pub(super) mod format;
pub(super) mod index;
pub(super) mod key;
pub(super) mod name;
pub(super) mod page;
