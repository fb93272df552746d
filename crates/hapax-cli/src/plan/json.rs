//! The answer for programs.

use super::{Answer, CaughtBy, Observed};
use hapax_plan::{CurvePoint, Length, Plan, Quantile};
use serde_json::{Value, json};
use std::time::Duration;

/// Returns an object of these fields, each by its name; and then of times, in seconds, with
/// `_seconds` behind their names.
macro_rules! object {
    ($of:expr; $($field:ident),*; $($time:ident),*) => {
        json!({
            $(stringify!($field): $of.$field,)*
            $(concat!(stringify!($time), "_seconds"): $of.$time.as_secs_f64(),)*
        })
    };
}

pub fn answer(answer: &Answer) -> String {
    let seen = answer.seen.as_ref().map(seen);
    let plan = answer.plan.as_ref().map(plan);
    format!("{:#}", json!({ "seen": seen, "plan": plan }))
}

fn seconds(time: Option<Duration>) -> Value {
    time.map(|time| time.as_secs_f64()).into()
}

fn seen(seen: &Observed) -> Value {
    let summary = &seen.summary;
    let mut object = object!(summary; records, repeats, late, records_per_second;);
    object["ids"] = summary.distinct.into();
    object["span_seconds"] = seconds(summary.span);
    object["bursts"] = summary.bursts.iter().map(|burst| object!(burst; mean, peak, dispersion; scale)).collect();
    object["quantiles"] = summary.quantiles.iter().map(quantile).collect();
    object["curve"] = summary.curve.iter().map(point).collect();
    object["window"] = seen.window.as_ref().map(|by| caught(by, summary.repeats)).into();
    object
}

fn caught(by: &CaughtBy, repeats: u64) -> Value {
    let mut object = object!(by; caught, caught_by_engine, caught_with_history, is_knee, cautions;);
    object["seconds"] = by.window.as_secs_f64().into();
    object["uncaught"] = (repeats - by.caught).into();
    object["all_seconds"] = seconds(by.all.as_ref().map(|all| all.window));
    object["all_ids"] = by.all.as_ref().and_then(|all| all.ids).into();
    object
}

fn quantile(quantile: &Quantile) -> Value {
    let mut object = object!(quantile; share, distance_records, window_records;);
    object["distance_seconds"] = seconds(quantile.distance);
    object["window_seconds"] = seconds(quantile.window);
    object
}

fn point(point: &CurvePoint) -> Value {
    match point.length {
        Length::Time(window) => json!({ "window_seconds": window.as_secs_f64(), "share": point.share }),
        Length::Records(records) => json!({ "window_records": records, "share": point.share }),
    }
}

fn plan(plan: &Plan) -> Value {
    let window = &plan.window;
    let mut of_window = object!(
        window; capacity, live, load, buckets, bytes, max_memory_bytes, grown_bytes, tables_max, grown_capacity,
        checks_per_second_max, forgotten_early_a_day, forgotten_early_a_day_at_peak, false_duplicates_a_day; tick
    );
    of_window["seconds"] = window.duration.as_secs_f64().into();
    let history = plan.history.as_ref().map(|history| {
        object!(
            history; false_positive_rate, ids, bytes, mean_false_positive_rate, false_positives_a_day; horizon
        )
    });
    let journal = plan.journal.as_ref().map(|journal| {
        object!(
            journal; commits_per_second, bytes_per_second, segments, disk_bytes, disk_bytes_max;
            commit_interval, retention, replay
        )
    });
    let long_memory = plan.long_memory.as_ref().map(|long_memory| {
        object!(
            long_memory; ids, bytes, bytes_max, disk_bytes, disk_bytes_max, is_written_three_times; retention
        )
    });
    let responses = plan.responses.as_ref().map(|kept| {
        let mut object = object!(kept; responses, record_bytes, budget_bytes, redis_bytes, sqlite_bytes; retention);
        object["responses_per_second"] = kept.per_second.into();
        object
    });
    let store = object!(
        plan.store; ids, redis_bytes, postgres_bytes, fjall_bytes, round_trips_saved_per_second,
        asked_per_second_shared, asked_per_second_exclusive; retention
    );
    // The filter has no long memory.
    let has_filter = plan.long_memory.is_none();
    json!({
        "checks_per_second": plan.checks_per_second,
        "duplicates": plan.duplicates,
        "peak": plan.peak,
        "window": of_window,
        "history": history,
        "claims": plan.claims.as_ref().map(|claims| object!(claims; in_flight, bytes; lease)),
        "journal": journal,
        "long_memory": long_memory,
        "bytes": plan.bytes(),
        "bytes_max": plan.bytes_max(),
        "responses": responses,
        "store": store,
        "builder": plan.builder_call(),
        "filter": has_filter.then(|| super::command::filter_options(plan)),
        "filter_bytes": has_filter.then(|| plan.filter_bytes()),
    })
}
