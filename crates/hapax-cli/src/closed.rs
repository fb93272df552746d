//! Finds out which of standard input, output and error were closed when the process began.
//!
//! Rust's runtime opens `/dev/null` in place of closed ones, before `main`: from then on they
//! cannot be told from ones that were redirected there. So this code looks before, where the C
//! runtime calls initialization functions.

#[cfg(unix)]
mod before_main {
    use std::sync::atomic::AtomicU8;
    use std::sync::atomic::Ordering::Relaxed;

    /// A bit for each of the descriptors 0 to 2. Only this file needs it; there is one thread when
    /// it is written.
    static CLOSED: AtomicU8 = AtomicU8::new(0);

    extern "C" fn look() {
        for descriptor in 0..3 {
            // SAFETY: asking for the flags of a descriptor changes nothing, also if there is no
            // such descriptor.
            let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFD) };
            // It fails for no other reason than that the descriptor is not open.
            if flags == -1 {
                CLOSED.fetch_or(1 << descriptor, Relaxed);
            }
        }
    }

    // SAFETY: the section holds pointers to functions of this type, and this one needs nothing of
    // Rust's runtime, which is not there yet: it makes system calls and writes to a static atomic.
    #[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
    #[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".init_array"))]
    #[used]
    static LOOK: extern "C" fn() = look;

    pub fn was_closed(descriptor: u8) -> bool {
        CLOSED.load(Relaxed) & 1 << descriptor != 0
    }
}

#[cfg(not(unix))]
mod before_main {
    pub fn was_closed(_: u8) -> bool {
        false
    }
}

use crate::error::CommandError;
use before_main::was_closed;

/// Returns an error if standard input was closed.
pub fn input() -> Result<(), CommandError> {
    open(0, "input")
}

/// Returns an error if standard output was closed.
pub fn output() -> Result<(), CommandError> {
    open(1, "output")
}

fn open(descriptor: u8, name: &str) -> Result<(), CommandError> {
    if was_closed(descriptor) { Err(CommandError::Io(format!("standard {name}: it is closed"))) } else { Ok(()) }
}
