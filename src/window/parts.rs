//! The parts of the window that explorations use.

#![cfg_attr(not(test), expect(unused_imports, reason = "only tests explore"))]

pub(crate) use super::batch::{Chunk, check_one};
pub(crate) use super::line::{LineMemory, Overtaken};
pub(crate) use super::slot::{Slot, Tag};
pub(crate) use super::table::{Table, TableMemory};
pub(crate) use super::tables::{Mine, Tables, place};
pub(crate) use super::tick::{TICK_SHIFT, Tick};
pub(crate) use super::view::View;

#[cfg(test)]
mod tests {
    use super::super::growth::Growth;
    use super::super::kernel::Kernel;
    use super::super::{Ticks, Window};
    use super::*;
    use std::time::Duration;

    impl Window {
        /// Returns a window of 100 ticks of a nanosecond each, on a first table of this few lines;
        /// it grows only when it is told to.
        pub(crate) fn explored(lines: usize, refresh_on_duplicate: bool) -> Self {
            let duration = Duration::from_nanos(100);
            let ticks = Ticks::of_window(duration).expect("100 ticks are a window");
            let first = Table::new(lines).expect("there is memory for a few lines");
            let growth = Growth::new(first, ticks.window, 0, false);
            Window { growth, ticks, duration, refresh_on_duplicate, kernel: Kernel::Portable }
        }

        pub(crate) fn explored_tables(&self) -> &Tables {
            self.tables()
        }
    }
}
