//! Ways to the server: drivers, poolers, roles with few connections, transactions of coordinators.

mod pooled;
mod prepared;
mod scarce;
#[cfg(feature = "sqlx")]
pub(super) mod sqlx;
