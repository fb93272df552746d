//! Options by their names, and statistics as dicts.

use crate::errors::wrong_option;
use crate::id::Seconds;
use hapax::{Builder, History, JournalOptions, LongMemory, Unconfirmed};
use hapax_store::{InMemoryStore, OnStoreError, Policy, TieredBuilder, TieredStats};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;

type Value<'py> = Bound<'py, PyAny>;

/// Sets options by their names, one at a time. An error says which one it was.
pub fn fold<T>(
    options: Option<&Bound<'_, PyDict>>,
    mut to: T,
    set: impl Fn(T, &str, &Value<'_>) -> PyResult<Option<T>>,
) -> PyResult<T> {
    for (name, value) in options.into_iter().flatten().filter(|(_, value)| !value.is_none()) {
        let name: String = name.extract()?;
        let wrong = |error: PyErr| wrong_option(format!("option `{name}`: {}", error.value(value.py())));
        let unknown = || PyTypeError::new_err(format!("got an unexpected option '{name}'"));
        to = set(to, &name, &value).map_err(wrong)?.ok_or_else(unknown)?;
    }
    Ok(to)
}

/// Returns what a word stands for.
pub fn one_of<T: Copy>(value: &Value<'_>, words: &[(&str, T)]) -> PyResult<T> {
    let expected = words.iter().map(|(word, _)| format!("\"{word}\"")).collect::<Vec<_>>().join(" or ");
    let word: String = value.extract()?;
    let found = words.iter().find(|(known, _)| *known == word);
    found.map(|(_, meant)| *meant).ok_or_else(|| wrong_option(format!("got {value:?}, expected {expected}")))
}

/// A clock that stands still until it is advanced: for tests, which need not sleep.
///
/// >>> import hapax
/// >>> clock = hapax.ManualClock()
/// >>> dedup = hapax.Dedup(window=60, clock=clock)
/// >>> dedup.check("a"), clock.advance(62), dedup.check("a").is_fresh
/// (<Verdict: fresh by window>, None, True)
#[pyclass(frozen, module = "hapax")]
pub struct ManualClock(hapax::ManualClock);

#[pymethods]
impl ManualClock {
    #[new]
    fn new() -> Self {
        ManualClock(hapax::ManualClock::new())
    }

    fn advance(&self, by: Seconds) {
        self.0.advance(by.0);
    }
}

/// Returns a builder with these options.
pub fn builder(options: &Bound<'_, PyDict>) -> PyResult<Builder> {
    fold(Some(options), hapax::Dedup::builder(), |builder, name, value| {
        Ok(Some(match name {
            "window" => builder.window(value.extract::<Seconds>()?.0),
            "capacity" => builder.capacity(value.extract()?),
            "max_memory" => builder.max_memory_bytes(value.extract()?),
            "refresh_on_duplicate" => builder.refresh_on_duplicate(value.extract()?),
            "lease" => builder.lease(value.extract::<Seconds>()?.0),
            "clock" => builder.clock(value.cast::<ManualClock>()?.get().0.clone()),
            "key" => builder.key(value.extract()?),
            "scope" => builder.scope(value.extract::<String>()?),
            "journal" => builder.journal(value.extract::<PathBuf>()?, JournalOptions::new()),
            "long_memory" => {
                let (path, retention): (PathBuf, Seconds) = value.extract()?;
                builder.long_memory(path, LongMemory::new(retention.0))
            }
            "history" => {
                let (horizon, ids, false_positive_rate, unconfirmed): (Seconds, _, _, Value<'_>) = value.extract()?;
                let words = [("duplicate", Unconfirmed::Duplicate), ("fresh", Unconfirmed::Fresh)];
                let unconfirmed = one_of(&unconfirmed, &words)?;
                builder.history(History { horizon: horizon.0, ids, false_positive_rate, unconfirmed })
            }
            _ => return Ok(None),
        }))
    })
}

/// Returns a builder of an engine with these options, which has no store of its own yet.
pub fn tiered(options: Option<&Bound<'_, PyDict>>) -> PyResult<TieredBuilder<InMemoryStore>> {
    let words = [("fail", OnStoreError::Fail), ("admit", OnStoreError::Admit)];
    fold(options, hapax_store::TieredDedup::builder(InMemoryStore::new()), |builder, name, value| {
        let secs = || Ok::<_, PyErr>(value.extract::<Seconds>()?.0);
        Ok(Some(match name {
            "window" => builder.window(secs()?),
            "capacity" => builder.capacity(value.extract()?),
            "max_memory" => builder.max_memory_bytes(value.extract()?),
            "retention" => builder.retention(secs()?),
            "lease" => builder.lease(secs()?),
            "scope" => builder.scope(value.extract::<String>()?),
            "timeout" => builder.timeout(secs()?),
            "retries" => builder.retries(value.extract()?),
            "in_doubt" => builder.in_doubt(secs()?),
            "on_store_error" => builder.policy("*", Policy::new().on_store_error(one_of(value, &words)?)),
            _ => return Ok(None),
        }))
    })
}

macro_rules! dict {
    ($py:ident, $of:expr, $($field:ident)*) => {{
        let (dict, of) = (PyDict::new($py), $of);
        $(dict.set_item(stringify!($field), of.$field.clone())?;)*
        dict
    }};
}

pub fn stats<'py>(py: Python<'py>, stats: &hapax::Stats) -> PyResult<Bound<'py, PyDict>> {
    let window = dict!(py, &stats.window, live evicted_live effective_window tick repaired_buckets bytes tables refused_tables
        false_duplicate_rate);
    let claims = dict!(py, &stats.claims, live claimed in_progress duplicates mismatches refused completed released failed
        taken_over expired lost fingerprints fingerprints_dropped);
    let all = dict!(py, stats, fresh fresh_unconfirmed duplicates_by_window duplicates_by_history duplicates_by_segments
        in_progress refused_ahead refused_late stream_time_resets history_false_positive_rate history_bytes bytes);
    all.set_item("window", window)?;
    all.set_item("claims", claims)?;
    all.set_item("at", stats.at.as_nanos())?;
    Ok(all)
}

pub fn tiered_stats<'py>(py: Python<'py>, stats: &TieredStats) -> PyResult<Bound<'py, PyDict>> {
    let decided =
        dict!(py, &stats.decided, fresh duplicates_by_memory duplicates_by_store in_progress admitted shadowed);
    let all = dict!(py, stats, store_calls store_requests failed_calls retries refusals breaker_opened waiting behind
        unresolved is_warm memory_bytes);
    all.set_item("decided", decided)?;
    Ok(all)
}
