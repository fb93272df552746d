//! Ends the command at a whole line on SIGINT and SIGTERM; a second signal ends it at once.

use crate::error::CommandError;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The signal that asks the command to end, once one has come.
#[derive(Clone)]
pub struct Signals(Arc<AtomicUsize>);

impl Signals {
    /// Notices signals from now on. Each that comes calls `wake`, in a thread of its own.
    #[cfg(unix)]
    pub fn listen(mut wake: impl FnMut() + Send + 'static) -> Result<Self, CommandError> {
        use signal_hook::consts::{SIGINT, SIGTERM};
        use std::sync::atomic::AtomicBool;
        let failed = |error: std::io::Error| CommandError::Io(format!("signals cannot be received: {error}"));
        let (came, which) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        for signal in [SIGINT, SIGTERM] {
            // The order matters: at the first signal the shutdown handler must not find the flag
            // set.
            let code = i32::from(CommandError::of_signal(signal));
            signal_hook::flag::register_conditional_shutdown(signal, code, came.clone()).map_err(failed)?;
            signal_hook::flag::register(signal, came.clone()).map_err(failed)?;
            signal_hook::flag::register_usize(signal, which.clone(), signal as usize).map_err(failed)?;
        }
        let mut arriving = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
        std::thread::spawn(move || arriving.forever().for_each(|_| wake()));
        Ok(Signals(which))
    }

    /// Does nothing: on this system signals end the process.
    #[cfg(not(unix))]
    pub fn listen(_: impl FnMut() + Send + 'static) -> Result<Self, CommandError> {
        Ok(Signals(Arc::default()))
    }

    /// Returns a failure if a signal has asked the command to end.
    pub fn asked(&self) -> Result<(), CommandError> {
        // Relaxed: nothing else is read because of it.
        match self.0.load(Ordering::Relaxed) {
            0 => Ok(()),
            signal => Err(CommandError::Signal(signal as i32)),
        }
    }
}
