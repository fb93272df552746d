//! A server that is killed, and connections that are cut.
