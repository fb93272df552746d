//! Consumers and streams: what they do, what they say of it, and whole systems: on a simulated
//! network, over real stores, and as documents show them.

mod campaign;
mod hostile;
mod observing;
mod processes;
mod simulation;
mod stream;
