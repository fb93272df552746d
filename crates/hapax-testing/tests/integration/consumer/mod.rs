//! The simulation of consumers finds what is wrong in some that are often written, and nothing in
//! those that are right.

mod consumers;
mod documents;
mod hapax_claims;
mod right;
mod wrong;
