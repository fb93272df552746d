//! Explicit-state exploration of the protocols.
