//! Metrics of an engine's memory (window, history, long memory), and of one that stands alone.

use hapax::{LongMemoryStats, Stats};
use metrics::{Counter, Gauge, Label, Unit, counter, gauge};
use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

/// Gauges: name, unit, what it is.
type Gauges<const N: usize> = [(&'static str, Unit, &'static str); N];
/// Counters: name, what it counts.
type Counters<const N: usize> = [(&'static str, &'static str); N];

const GAUGES: Gauges<3> = [
    ("hapax_memory_bytes", Unit::Bytes, "memory of the window, the history and the claims"),
    ("hapax_window_live_ids", Unit::Count, "ids that the window knows"),
    ("hapax_window_effective_seconds", Unit::Seconds, "how long the window has really remembered"),
];
const COUNTERS: Counters<1> = [("hapax_window_evicted_ids_total", "ids that the window forgot before their time")];

const OF_HISTORY: Gauges<1> =
    [("hapax_history_false_positive_ratio", Unit::Count, "how often the history takes a new id for a known one")];

const OF_LONG_MEMORY: Gauges<7> = [
    ("hapax_long_memory_ids", Unit::Count, "ids in segments"),
    ("hapax_long_memory_bytes", Unit::Bytes, "memory of the filters and tables of segments"),
    ("hapax_long_memory_disk_bytes", Unit::Bytes, "files of segments"),
    ("hapax_long_memory_segments", Unit::Count, "segments that are looked at"),
    ("hapax_long_memory_remote_segments", Unit::Count, "segments whose file is not here yet"),
    ("hapax_long_memory_lag_seconds", Unit::Seconds, "age of the oldest id that may be in no segment"),
    ("hapax_long_memory_failing", Unit::Count, "1 if nothing is sealed, or brought, for an error"),
];
const COUNTERS_OF_LONG_MEMORY: Counters<3> = [
    ("hapax_long_memory_in_doubt_total", "answers that were fresh for want of a page or of a segment"),
    ("hapax_long_memory_pages_read_total", "pages that were read to answer"),
    ("hapax_long_memory_written_records_total", "records written, by sealing and by merging"),
];

/// A count of decisions: name, labels beside the engine's, and its value.
type Decision = (&'static str, &'static [(&'static str, &'static str)], fn(&Stats) -> u64);

/// Descriptions of these.
const DECIDED: Counters<4> = [
    ("hapax_verdicts_total", "ids that were decided"),
    ("hapax_claim_mismatches_total", "claims with another fingerprint than the id's"),
    ("hapax_claims_refused_total", "claims refused since too many ids are in flight"),
    ("hapax_claim_ends_total", "claims that ended"),
];

/// The decisions of an engine that stands alone. One over a store counts its own.
const DECISIONS: [Decision; 14] = [
    ("hapax_verdicts_total", &[("verdict", "fresh"), ("tier", "window")], |stats| stats.fresh),
    ("hapax_verdicts_total", &[("verdict", "fresh"), ("tier", "claims")], |stats| stats.claims.claimed),
    ("hapax_verdicts_total", &[("verdict", "duplicate"), ("tier", "window")], |stats| stats.duplicates_by_window),
    ("hapax_verdicts_total", &[("verdict", "duplicate"), ("tier", "history")], |stats| stats.duplicates_by_history),
    ("hapax_verdicts_total", &[("verdict", "duplicate"), ("tier", "segments")], |stats| stats.duplicates_by_segments),
    ("hapax_verdicts_total", &[("verdict", "duplicate"), ("tier", "claims")], |stats| stats.claims.duplicates),
    ("hapax_verdicts_total", &[("verdict", "in_progress"), ("tier", "claims")], |stats| {
        stats.in_progress + stats.claims.in_progress
    }),
    ("hapax_verdicts_total", &[("verdict", "refused"), ("tier", "window")], |stats| {
        stats.refused_ahead + stats.refused_late
    }),
    ("hapax_claim_mismatches_total", &[], |stats| stats.claims.mismatches),
    ("hapax_claims_refused_total", &[], |stats| stats.claims.refused),
    ("hapax_claim_ends_total", &[("end", "completed")], |stats| stats.claims.completed),
    ("hapax_claim_ends_total", &[("end", "released")], |stats| stats.claims.released),
    ("hapax_claim_ends_total", &[("end", "failed")], |stats| stats.claims.failed),
    ("hapax_claim_ends_total", &[("end", "lost")], |stats| stats.claims.lost),
];

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

/// Metrics of an engine that stands alone, under a name, for whatever recorder the program has
/// installed: those of `docs/metrics.md` with the label `policy`, which here is the name, about
/// verdicts, claims, memory, window, history and long memory.
///
/// A program that has a [`Dedup`](hapax::Dedup) calls [`show`](Self::show) every 15 seconds, on a
/// thread that may wait. A [`TieredDedup`](crate::TieredDedup) shows its own by itself, and so does
/// a `LogConsumer` of `hapax-stream`.
///
/// ```
/// use hapax::Dedup;
/// use hapax_store::EngineMetrics;
/// use std::{thread, time::Duration};
///
/// let dedup = Dedup::builder().build()?;
/// let (shown, metrics) = (dedup.clone(), EngineMetrics::new("orders"));
/// thread::spawn(move || loop {
///     metrics.show(&shown.stats());
///     thread::sleep(Duration::from_secs(15));
/// });
/// # Ok::<(), hapax::Error>(())
/// ```
///
/// # Cost
///
/// Of [`show`](Self::show): nanoseconds a metric. Of `stats`: 10 to 20 ms for 10 million ids, whose
/// window is read.
pub struct EngineMetrics {
    name: String,
    /// None of an engine over a store.
    decisions: Option<[Counter; DECISIONS.len()]>,
    memory: Metrics<3, 1>,
    history: OnceLock<Metrics<1, 0>>,
    long_memory: OnceLock<Metrics<7, 3>>,
}

impl EngineMetrics {
    /// Registers the metrics of an engine. Those of a history, and of a long memory, are registered
    /// when the first figures [are shown](Self::show) in which there is one.
    ///
    /// Two engines of one name share series: show each under a name of its own.
    pub fn new(name: impl Into<String>) -> Self {
        let mut alone = Self::of_memory(name);
        DECIDED.iter().for_each(|(name, what)| metrics::describe_counter!(*name, Unit::Count, *what));
        alone.decisions = Some(DECISIONS.map(|(name, labels, _)| {
            let policy = Label::new("policy", alone.name.clone());
            let labels = labels.iter().map(|(label, value)| Label::from_static_parts(label, value));
            counter!(name, std::iter::once(policy).chain(labels).collect::<Vec<_>>())
        }));
        alone
    }

    /// Registers the metrics of the memory of an engine that counts its decisions itself.
    pub(crate) fn of_memory(name: impl Into<String>) -> Self {
        let name = name.into();
        let memory = Metrics::new(&name, GAUGES, COUNTERS);
        EngineMetrics { name, decisions: None, memory, history: OnceLock::new(), long_memory: OnceLock::new() }
    }

    /// Shows the figures of the engine.
    pub fn show(&self, stats: &Stats) {
        for (counter, (_, _, count)) in self.decisions.iter().flatten().zip(DECISIONS) {
            counter.absolute(count(stats));
        }
        let (window, effective) = (&stats.window, stats.window.effective_window.as_secs_f64());
        self.memory.show([stats.bytes as f64, window.live as f64, effective], [window.evicted_live]);
        if let Some(rate) = stats.history_false_positive_rate {
            self.history.get_or_init(|| Metrics::new(&self.name, OF_HISTORY, [])).show([rate], []);
        }
        if let Some(LongMemoryStats { segments, lag, in_doubt, failed, not_brought, .. }) = &stats.long_memory {
            let is_failing = failed.is_some() || not_brought.is_some();
            let gauges = [
                segments.ids as f64,
                segments.memory_bytes as f64,
                segments.disk_bytes as f64,
                segments.segments as f64,
                segments.remote as f64,
                lag.as_secs_f64(),
                u8::from(is_failing).into(),
            ];
            let metrics = || Metrics::new(&self.name, OF_LONG_MEMORY, COUNTERS_OF_LONG_MEMORY);
            let counters = [*in_doubt, segments.pages_read, segments.written_records];
            self.long_memory.get_or_init(metrics).show(gauges, counters);
        }
    }
}

impl fmt::Debug for EngineMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineMetrics").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Metrics of a part of an engine's memory.
struct Metrics<const G: usize, const C: usize> {
    gauges: [Gauge; G],
    counters: [Counter; C],
}

impl<const G: usize, const C: usize> Metrics<G, C> {
    fn new(engine: &str, gauges: Gauges<G>, counters: Counters<C>) -> Self {
        Metrics {
            gauges: gauges.map(|(name, unit, what)| {
                metrics::describe_gauge!(name, unit, what);
                gauge!(name, "policy" => engine.to_owned())
            }),
            counters: counters.map(|(name, what)| {
                metrics::describe_counter!(name, Unit::Count, what);
                counter!(name, "policy" => engine.to_owned())
            }),
        }
    }

    fn show(&self, gauges: [f64; G], counters: [u64; C]) {
        self.gauges.iter().zip(gauges).for_each(|(gauge, value)| gauge.set(value));
        self.counters.iter().zip(counters).for_each(|(counter, value)| counter.absolute(value));
    }
}
