//! Consumers and streams: what they do, what they say of it, and whole systems on a simulated
//! network.

mod observing;
mod simulation;
mod stream;
