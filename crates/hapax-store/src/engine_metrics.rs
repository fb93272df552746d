//! Metrics of an engine's memory: window, history, long memory.

use hapax::Stats;
use metrics::{Counter, Gauge, Unit, counter, gauge};
use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

const BYTES: &str = "hapax_memory_bytes";
const LIVE: &str = "hapax_window_live_ids";
const EVICTED: &str = "hapax_window_evicted_ids_total";
const EFFECTIVE: &str = "hapax_window_effective_seconds";
const FALSE_POSITIVES: &str = "hapax_history_false_positive_ratio";

/// The time between two samples of an engine's memory.
#[doc(hidden)]
pub const SAMPLED_EVERY: Duration = Duration::from_secs(15);

/// Takes a sample of windows of at most so many bytes: here, or where that takes longer than a task
/// should, since ids are counted by reading all of a window, on a thread that may wait.
#[doc(hidden)]
pub async fn sampled(window_bytes: usize, sample: impl FnOnce() + Send + 'static) {
    const SMALL_BYTES: usize = 1 << 20;
    // (A further thread would be one more whose order a simulation cannot repeat.)
    if window_bytes <= SMALL_BYTES {
        sample()
    } else {
        // A panic there has been reported, and the next sample may succeed.
        drop(tokio::task::spawn_blocking(sample).await)
    }
}

/// Metrics of the memory of an engine that stands alone, under a name, for whatever recorder the
/// program has installed: those of `docs/metrics.md` with the label `policy`, which here is the
/// name, about memory, window, history and long memory.
///
/// A [`TieredDedup`](crate::TieredDedup) shows its own, and so does a `LogConsumer` of
/// `hapax-stream`.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use hapax::Dedup;
/// use hapax_store::EngineMetrics;
///
/// let dedup = Dedup::builder().build()?;
/// let metrics = EngineMetrics::new("orders");
/// dedup.check("m-1");
/// metrics.show(&dedup.stats()); // every 15 seconds, on a thread that may wait
/// # Ok(())
/// # }
/// ```
///
/// # Cost
///
/// Of [`show`](Self::show): nanoseconds a metric. Of `stats`: 10 to 20 ms for 10 million ids, whose
/// window is read.
pub struct EngineMetrics {
    name: String,
    bytes: Gauge,
    live: Gauge,
    evicted: Counter,
    effective_seconds: Gauge,
    false_positives: OnceLock<Gauge>,
    long_memory: OnceLock<long_memory::LongMemoryMetrics>,
}

impl EngineMetrics {
    /// Registers the metrics of an engine. Those of a history, and of a long memory, are registered
    /// when the first figures [are shown](Self::show) in which there is one.
    ///
    /// Two engines of one name share series: show each under a name of its own.
    pub fn new(name: impl Into<String>) -> Self {
        let name = name.into();
        metrics::describe_gauge!(BYTES, Unit::Bytes, "memory of the window, the history and the claims");
        metrics::describe_gauge!(LIVE, Unit::Count, "ids that the window knows");
        metrics::describe_counter!(EVICTED, Unit::Count, "ids that the window forgot before their time");
        metrics::describe_gauge!(EFFECTIVE, Unit::Seconds, "how long the window has really remembered");
        EngineMetrics {
            bytes: gauge!(BYTES, "policy" => name.clone()),
            live: gauge!(LIVE, "policy" => name.clone()),
            evicted: counter!(EVICTED, "policy" => name.clone()),
            effective_seconds: gauge!(EFFECTIVE, "policy" => name.clone()),
            false_positives: OnceLock::new(),
            long_memory: OnceLock::new(),
            name,
        }
    }

    /// Shows the figures of the engine.
    pub fn show(&self, stats: &Stats) {
        self.bytes.set(stats.bytes as f64);
        self.live.set(stats.window.live as f64);
        self.evicted.absolute(stats.window.evicted_live);
        self.effective_seconds.set(stats.window.effective_window.as_secs_f64());
        if let Some(rate) = stats.history_false_positive_rate {
            let false_positives = self.false_positives.get_or_init(|| {
                let what = "how often the history takes a new id for a known one";
                metrics::describe_gauge!(FALSE_POSITIVES, Unit::Count, what);
                gauge!(FALSE_POSITIVES, "policy" => self.name.clone())
            });
            false_positives.set(rate);
        }
        if let Some(stats) = &stats.long_memory {
            self.long_memory.get_or_init(|| long_memory::LongMemoryMetrics::new(&self.name)).show(stats);
        }
    }
}

impl fmt::Debug for EngineMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineMetrics").field("name", &self.name).finish_non_exhaustive()
    }
}

mod long_memory {
    use hapax::LongMemoryStats;
    use metrics::{Counter, Gauge, Unit, counter, gauge};

    const IDS: &str = "hapax_long_memory_ids";
    const BYTES: &str = "hapax_long_memory_bytes";
    const DISK: &str = "hapax_long_memory_disk_bytes";
    const SEGMENTS: &str = "hapax_long_memory_segments";
    const REMOTE: &str = "hapax_long_memory_remote_segments";
    const LAG: &str = "hapax_long_memory_lag_seconds";
    const FAILING: &str = "hapax_long_memory_failing";
    const IN_DOUBT: &str = "hapax_long_memory_in_doubt_total";
    const PAGES: &str = "hapax_long_memory_pages_read_total";
    const WRITTEN: &str = "hapax_long_memory_written_records_total";

    /// Metrics of a long memory.
    pub(super) struct LongMemoryMetrics {
        ids: Gauge,
        bytes: Gauge,
        disk_bytes: Gauge,
        segments: Gauge,
        remote: Gauge,
        lag_seconds: Gauge,
        failing: Gauge,
        in_doubt: Counter,
        pages_read: Counter,
        written_records: Counter,
    }

    impl LongMemoryMetrics {
        pub(super) fn new(name: &str) -> Self {
            let gauge = |metric: &'static str, unit, what: &'static str| {
                metrics::describe_gauge!(metric, unit, what);
                gauge!(metric, "policy" => name.to_owned())
            };
            let counter = |metric: &'static str, what: &'static str| {
                metrics::describe_counter!(metric, Unit::Count, what);
                counter!(metric, "policy" => name.to_owned())
            };
            LongMemoryMetrics {
                ids: gauge(IDS, Unit::Count, "ids in segments"),
                bytes: gauge(BYTES, Unit::Bytes, "memory of the filters and tables of segments"),
                disk_bytes: gauge(DISK, Unit::Bytes, "files of segments"),
                segments: gauge(SEGMENTS, Unit::Count, "segments that are looked at"),
                remote: gauge(REMOTE, Unit::Count, "segments whose file is not here yet"),
                lag_seconds: gauge(LAG, Unit::Seconds, "age of the oldest id that may be in no segment"),
                failing: gauge(FAILING, Unit::Count, "1 if nothing is sealed, or brought, for an error"),
                in_doubt: counter(IN_DOUBT, "answers that were fresh for want of a page or of a segment"),
                pages_read: counter(PAGES, "pages that were read to answer"),
                written_records: counter(WRITTEN, "records written, by sealing and by merging"),
            }
        }

        pub(super) fn show(&self, stats: &LongMemoryStats) {
            let segments = &stats.segments;
            self.ids.set(segments.ids as f64);
            self.bytes.set(segments.memory_bytes as f64);
            self.disk_bytes.set(segments.disk_bytes as f64);
            self.segments.set(segments.segments as f64);
            self.remote.set(segments.remote as f64);
            self.lag_seconds.set(stats.lag.as_secs_f64());
            let is_failing = stats.failed.is_some() || stats.not_brought.is_some();
            self.failing.set(f64::from(u8::from(is_failing)));
            self.in_doubt.absolute(stats.in_doubt);
            self.pages_read.absolute(segments.pages_read);
            self.written_records.absolute(segments.written_records);
        }
    }
}
