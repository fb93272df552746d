//! Stores against real servers, which the tests start and stop themselves.

mod proxy;
