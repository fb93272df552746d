//! The thread that brings segments here which were elsewhere when the engine was built. It ends
//! when all are here.

use crate::random::any;
use crate::segments::Segments;
use crate::sync::unpoisoned;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// The bytes that are asked for at once.
const PIECE: usize = 32 << 20;

/// The shortest and the longest rest after errors.
const RESTS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(16));

/// The thread, and how it is told to end.
pub(super) struct Bringer {
    ending: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Bringer {
    pub(super) fn start(segments: Arc<Segments>) -> std::io::Result<Self> {
        let ending = Arc::new((Mutex::new(false), Condvar::new()));
        let told = Arc::clone(&ending);
        // Before it runs: a batch waits for what is on its way.
        segments.is_bringing(true);
        let run = move || {
            bring_all(&segments, &told);
            segments.is_bringing(false);
        };
        let thread = std::thread::Builder::new().name("hapax-bringing".into()).spawn(run)?;
        Ok(Bringer { ending, thread: Some(thread) })
    }

    /// Ends the thread, when the source has answered what it was asked.
    pub(super) fn end(&mut self) {
        let (is_ending, changed) = &*self.ending;
        *unpoisoned(is_ending.lock()) = true;
        changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // If the thread has panicked, there is nobody left to tell.
            let _ = thread.join();
        }
    }

    /// Leaves the thread alone: it is another process's.
    pub(super) fn leave(&mut self) {
        std::mem::forget(self.thread.take());
    }
}

fn bring_all(segments: &Segments, (is_ending, changed): &(Mutex<bool>, Condvar)) {
    let mut rest = RESTS.0;
    while !*unpoisoned(is_ending.lock()) {
        match segments.bring(PIECE) {
            Ok(true) => rest = RESTS.0,
            Ok(false) => return,
            Err(_) => {
                // The error is in the statistics, and the answers that it concerns are in doubt.
                let jittered = rest.mul_f64(0.75 + (any() % 256) as f64 / 512.0);
                let state = unpoisoned(is_ending.lock());
                drop(unpoisoned(changed.wait_timeout_while(state, jittered, |is_ending| !*is_ending)));
                rest = (2 * rest).min(RESTS.1);
            }
        }
    }
}
