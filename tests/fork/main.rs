//! What a child of a fork may do with an engine of its parent.
//!
//! Each case is a process of its own, this program once more: it forks, and what hangs in it is
//! killed by its alarm. No test harness, so that a case has the threads that it starts itself.

#[cfg(not(unix))]
fn main() {}

#[cfg(unix)]
fn main() {
    cases::main();
}

#[cfg(unix)]
mod cases;
#[cfg(unix)]
mod journal;
#[cfg(unix)]
mod memory;
#[cfg(unix)]
mod world;
