//! The tables themselves: how they are made and rotated, their names and locks, and rows that
//! others have locked or written.

pub mod ahead;
mod behind;
mod by_hand;
mod expiring;
mod locked;
mod locks;
mod migrations;
mod names;
mod namespaces;
mod rotation;
mod strange;
