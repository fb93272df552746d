//! The last stage: prints batches, and records that.

use super::printing::count::Counter;
use super::printing::duplicates_file::Beside;
use super::printing::output::Output;
use super::progress::Progress;
use super::report::Counts;
use super::stages::Next;
use super::state::State;
use super::verdicts::print::Printer;
use crate::error::CommandError;
use crate::signals::Signals;
use std::time::Duration;

/// The last stage, in the caller's thread.
pub struct Last {
    pub printer: Printer<Output>,
    /// The file for the duplicates, if there is one.
    pub beside: Option<Beside>,
    /// The counts of repetitions, if they are wanted.
    pub counter: Option<Counter>,
    pub state: Option<State>,
    pub counts: Counts,
    pub progress: Progress,
    pub signals: Signals,
}

/// The time to wait for a batch before checking whether a reader has taken what is in the pipe.
const LOOK: Duration = Duration::from_millis(50);

impl Last {
    /// Prints a batch and records it, or does other work meanwhile. Returns how long to wait for
    /// the next batch.
    pub fn take(&mut self, next: Next) -> Result<Option<Duration>, CommandError> {
        let Last { printer, beside, counter, state, counts, progress, signals } = self;
        if let Next::Batch(batch) = next {
            counts.add(batch);
            progress.update(counts);
            // If the pipe was closed by the signal that asks for an end, too, the signal is the
            // reason.
            let printed = printer.print(batch).map_err(|error| printer.output.failed(error));
            printed.map_err(|failure| signals.asked().err().unwrap_or(failure))?;
            // Before the state has it, so that none is missing.
            beside.iter_mut().try_for_each(|beside| beside.print(batch))?;
            counter.iter_mut().for_each(|counter| counter.add(batch));
            let (header, asked) = (printer.has_header(), || signals.asked().is_err());
            if let Some(state) = state {
                state.printed(batch, header, &mut printer.output, asked)?;
            }
        } else if let Some(state) = state {
            state.settle(&printer.output)?;
        }
        signals.asked()?;
        Ok(state.as_ref().filter(|state| !state.is_settled()).map(|_| LOOK))
    }
}
