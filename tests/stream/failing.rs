//! failing
