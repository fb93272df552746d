//! Files of a journal for others: for whoever copies them, or makes segments of them.

pub(super) mod durable_files;
pub(crate) mod unsealed_files;
