//! ending
