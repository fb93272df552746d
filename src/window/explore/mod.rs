//! Explicit-state exploration of the protocols: every interleaving of small scenarios, on the
//! window's own code.
//!
//! `RUSTFLAGS='--cfg modelled --cfg explore' cargo test --release --lib explore` runs it. Where
//! loom runs executions, and cuts them off after a few preemptions, this visits *states*, each
//! once, so it can afford all interleavings. It is sequentially consistent: loom has to find what
//! the memory orderings allow beyond that.
//!
//! The atomics are those of [`explored`](crate::sync::explored): an operation can be suspended
//! before each access, and its next step is a function of what it has observed. Each such history
//! is run once ([`automaton`]). A state consists of the words, of how far each caller is, and of
//! what the answers so far allow ([`monitor`]); [`search`] visits all states. [`scenario`] defines
//! scenarios, the other files contain them.

mod automaton;
mod judging;
mod monitor;
mod run;
mod scenario;
mod search;
mod state;
mod subject;

mod buckets;
mod forgetting;
mod fuzzing;
mod growing;
mod mutants;
mod sweeping;
mod wrapping;
