//! The behaviour of a forked child with an engine of its parent.
//!
//! Each case is a process of its own, this program once more: it forks, and a process that hangs is
//! killed by its alarm. There is no test harness, so that a case has only the threads that it
//! starts itself.

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
mod segments;
#[cfg(unix)]
mod world;
