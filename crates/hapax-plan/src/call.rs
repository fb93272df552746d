//! A plan as text to copy.

use super::Plan;
use super::memory::one_table_bytes;
use super::units::Time;
use hapax::seam::sizing::window::buckets_for;
use std::fmt::Write;
use std::time::Duration;

/// The least capacity that is printed: the smallest table has room for as many, and records that
/// have come are no limit of those to come.
const CAPACITY_MIN: usize = 3_000;

impl Plan {
    /// Returns the call that builds the engine, as Rust.
    ///
    /// ```
    /// use hapax_plan::Demand;
    /// use std::time::Duration;
    ///
    /// let plan = Demand::new(100.0, Duration::from_secs(60)).plan()?;
    /// let call = "Dedup::builder()
    ///     .window(Duration::from_secs(60))
    ///     .capacity(6_000)
    ///     .max_memory_bytes(381_312)
    ///     .build()?";
    /// assert_eq!(plan.builder_call(), call);
    /// # Ok::<(), hapax_plan::PlanError>(())
    /// ```
    pub fn builder_call(&self) -> String {
        let mut call = "Dedup::builder()".to_string();
        let mut line = |text: String| call += &format!("\n    .{text}");
        line(format!("window({})", duration(self.window.duration)));
        line(format!("capacity({})", number(self.window.capacity.max(CAPACITY_MIN))));
        line(format!("max_memory_bytes({})", number(self.window.max_memory_bytes)));
        if let Some(history) = &self.history {
            let (horizon, rate) = (duration(history.horizon), history.false_positive_rate);
            let ids = number(history.ids);
            line(format!(
                "history(History {{\n        horizon: {horizon},\n        ids: {ids},\n        \
                 false_positive_rate: {rate:e},\n        unconfirmed: Unconfirmed::Duplicate,\n    }})"
            ));
        }
        if let Some(claims) = &self.claims {
            line(format!("lease({})", duration(claims.lease)));
        }
        if let Some(long_memory) = &self.long_memory {
            let retention = duration(long_memory.retention);
            line(format!("long_memory(\"long-memory\", LongMemory::new({retention}))"));
        }
        if let Some(journal) = &self.journal {
            let interval = duration(journal.commit_interval);
            line(format!("journal(\"journal\", JournalOptions::new().commit_interval({interval}))"));
        }
        line("build()?".to_string());
        call
    }

    /// Returns the options of `hapax filter` for the same window, history and journal.
    ///
    /// The capacity is larger than the builder's, where the memory allows it: the filter has no
    /// thread that grows its window, so the window grows at six sevenths of it.
    ///
    /// ```
    /// use hapax_plan::Demand;
    /// use std::time::Duration;
    ///
    /// let plan = Demand::new(100.0, Duration::from_secs(60)).plan()?;
    /// assert_eq!(plan.filter_options(), "--window 1m --capacity 6958 --max-memory 381312");
    /// # Ok::<(), hapax_plan::PlanError>(())
    /// ```
    pub fn filter_options(&self) -> String {
        let window = &self.window;
        let (duration, capacity) = (Time(window.duration), window.capacity_without_thread.max(CAPACITY_MIN));
        let mut options = format!("--window {duration} --capacity {capacity} --max-memory {}", window.max_memory_bytes);
        if let Some(history) = &self.history {
            let (horizon, rate) = (Time(history.horizon), history.false_positive_rate);
            write!(options, " --history {horizon}:{rate:e}:{} --unconfirmed duplicate", history.ids)
                .expect("a string takes everything");
        }
        if self.journal.is_some() {
            options += " --state journal";
        }
        options
    }
}

impl Plan {
    /// Returns the memory to begin with of `hapax filter` with
    /// [these options](Self::filter_options).
    pub fn filter_bytes(&self) -> usize {
        let buckets = buckets_for(self.window.capacity_without_thread).unwrap_or(self.window.buckets);
        self.bytes() - self.claims.as_ref().map_or(0, |claims| claims.bytes) - self.window.bytes
            + one_table_bytes(buckets)
    }
}

/// Formats a duration as an expression.
fn duration(duration: Duration) -> String {
    let nanos = duration.as_nanos() as usize;
    let (divisor, unit) = match nanos {
        n if n.is_multiple_of(1_000_000_000) => (1_000_000_000, "secs"),
        n if n.is_multiple_of(1_000_000) => (1_000_000, "millis"),
        n if n.is_multiple_of(1_000) => (1_000, "micros"),
        _ => (1, "nanos"),
    };
    format!("Duration::from_{unit}({})", number(nanos / divisor))
}

/// Formats a number as in Rust code, with a separator between thousands.
fn number(number: usize) -> String {
    let digits = number.to_string();
    let chunks: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    chunks.join("_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_ids_are_no_capacity_to_paste() {
        assert_eq!(buckets_for(CAPACITY_MIN), buckets_for(1), "it takes no more memory");
        let plan = crate::Demand::new(0.1, Duration::from_secs(60)).plan().unwrap();
        assert_eq!(plan.window.capacity, 6);
        assert!(
            plan.builder_call().contains(".capacity(3_000)\n") && plan.filter_options().contains(" --capacity 3000 ")
        );
    }

    #[test]
    fn expressions() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(number), ["0", "999", "1_000", "1_234_567"]);
        let durations =
            [1_500_000_000, 86_400_000_000_000, 20_000, 7].map(|nanos| duration(Duration::from_nanos(nanos)));
        let expected = ["from_millis(1_500)", "from_secs(86_400)", "from_micros(20)", "from_nanos(7)"];
        assert_eq!(durations, expected.map(|call| format!("Duration::{call}")));
    }
}
