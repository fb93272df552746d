//! Interrupts, as a flag that the command checks.

use crate::error::CommandError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that is set when the user wants the command to end.
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Notices interrupts from now on; a second one ends the process at once.
    pub fn listen() -> Result<Self, CommandError> {
        let wanted = Arc::new(AtomicBool::new(false));
        let failed = |error: std::io::Error| CommandError::Io(format!("signals cannot be received: {error}"));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            // The order matters: at the first interrupt the shutdown handler must not find the flag
            // set.
            signal_hook::flag::register_conditional_shutdown(
                signal,
                i32::from(CommandError::INTERRUPTED),
                wanted.clone(),
            )
            .map_err(failed)?;
            signal_hook::flag::register(signal, wanted.clone()).map_err(failed)?;
        }
        Ok(Interrupt(wanted))
    }

    pub fn is_wanted(&self) -> bool {
        // Relaxed: nothing else is read because of it.
        self.0.load(Ordering::Relaxed)
    }
}
