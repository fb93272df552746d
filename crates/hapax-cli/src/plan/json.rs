//! The answer for programs.

use super::{Answer, Observed};
use hapax_plan::{
    Burst, ClaimsPlan, CurvePoint, HistoryPlan, JournalPlan, Length, LongMemoryPlan, Plan, Quantile, ResponsesPlan,
    StorePlan, WindowPlan,
};
use serde_json::{Value, json};

pub fn answer(answer: &Answer) -> String {
    let seen = answer.seen.as_ref().map(seen);
    let plan = answer.plan.as_ref().map(plan);
    format!("{:#}", json!({ "seen": seen, "plan": plan }))
}

fn seen(seen: &Observed) -> Value {
    let summary = &seen.summary;
    json!({
        "records": summary.records,
        "ids": summary.distinct,
        "repeats": summary.repeats,
        "late": summary.late,
        "span_seconds": summary.span.map(|span| span.as_secs_f64()),
        "records_per_second": summary.records_per_second,
        "bursts": summary.bursts.iter().map(burst).collect::<Vec<_>>(),
        "quantiles": summary.quantiles.iter().map(quantile).collect::<Vec<_>>(),
        "curve": summary.curve.iter().map(point).collect::<Vec<_>>(),
        "window": seen.window.as_ref().map(|by| json!({
            "seconds": by.window.as_secs_f64(),
            "caught": by.caught,
            "caught_by_engine": by.caught_by_engine,
            "caught_with_history": by.caught_with_history,
            "is_knee": by.is_knee,
            "uncaught": summary.repeats - by.caught,
            "all_seconds": by.all.as_ref().map(|all| all.window.as_secs_f64()),
            "all_ids": by.all.as_ref().and_then(|all| all.ids),
            "cautions": by.cautions.iter().map(ToString::to_string).collect::<Vec<_>>(),
        })),
    })
}

fn burst(burst: &Burst) -> Value {
    json!({
        "scale_seconds": burst.scale.as_secs_f64(),
        "mean": burst.mean,
        "peak": burst.peak,
        "dispersion": burst.dispersion,
    })
}

fn quantile(quantile: &Quantile) -> Value {
    json!({
        "share": quantile.share,
        "distance_seconds": quantile.distance.map(|distance| distance.as_secs_f64()),
        "window_seconds": quantile.window.map(|window| window.as_secs_f64()),
        "distance_records": quantile.distance_records,
        "window_records": quantile.window_records,
    })
}

fn point(point: &CurvePoint) -> Value {
    match point.length {
        Length::Time(window) => json!({ "window_seconds": window.as_secs_f64(), "share": point.share }),
        Length::Records(records) => json!({ "window_records": records, "share": point.share }),
    }
}

fn plan(plan: &Plan) -> Value {
    json!({
        "checks_per_second": plan.checks_per_second,
        "duplicates": plan.duplicates,
        "peak": plan.peak,
        "window": window(&plan.window),
        "history": plan.history.as_ref().map(history),
        "claims": plan.claims.as_ref().map(claims),
        "journal": plan.journal.as_ref().map(journal),
        "long_memory": plan.long_memory.as_ref().map(long_memory),
        "bytes": plan.bytes(),
        "bytes_max": plan.bytes_max(),
        "responses": plan.responses.as_ref().map(responses),
        "store": store(&plan.store),
        "builder": plan.builder_call(),
        // The filter has no long memory.
        "filter": plan.long_memory.is_none().then(|| super::command::filter_options(plan)),
        "filter_bytes": plan.long_memory.is_none().then(|| plan.filter_bytes()),
    })
}

fn window(window: &WindowPlan) -> Value {
    json!({
        "seconds": window.duration.as_secs_f64(),
        "tick_seconds": window.tick.as_secs_f64(),
        "capacity": window.capacity,
        "live": window.live,
        "load": window.load,
        "buckets": window.buckets,
        "bytes": window.bytes,
        "max_memory_bytes": window.max_memory_bytes,
        "grown_bytes": window.grown_bytes,
        "tables_max": window.tables_max,
        "grown_capacity": window.grown_capacity,
        "checks_per_second_max": window.checks_per_second_max,
        "forgotten_early_a_day": window.forgotten_early_a_day,
        "forgotten_early_a_day_at_peak": window.forgotten_early_a_day_at_peak,
        "false_duplicates_a_day": window.false_duplicates_a_day,
    })
}

fn history(history: &HistoryPlan) -> Value {
    json!({
        "horizon_seconds": history.horizon.as_secs_f64(),
        "false_positive_rate": history.false_positive_rate,
        "ids": history.ids,
        "bytes": history.bytes,
        "mean_false_positive_rate": history.mean_false_positive_rate,
        "false_positives_a_day": history.false_positives_a_day,
    })
}

fn claims(claims: &ClaimsPlan) -> Value {
    json!({
        "in_flight": claims.in_flight,
        "lease_seconds": claims.lease.as_secs_f64(),
        "bytes": claims.bytes,
    })
}

fn journal(journal: &JournalPlan) -> Value {
    json!({
        "commit_interval_seconds": journal.commit_interval.as_secs_f64(),
        "commits_per_second": journal.commits_per_second,
        "bytes_per_second": journal.bytes_per_second,
        "retention_seconds": journal.retention.as_secs_f64(),
        "segments": journal.segments,
        "disk_bytes": journal.disk_bytes,
        "disk_bytes_max": journal.disk_bytes_max,
        "replay_seconds": journal.replay.as_secs_f64(),
    })
}

fn long_memory(long_memory: &LongMemoryPlan) -> Value {
    json!({
        "retention_seconds": long_memory.retention.as_secs_f64(),
        "ids": long_memory.ids,
        "bytes": long_memory.bytes,
        "bytes_max": long_memory.bytes_max,
        "disk_bytes": long_memory.disk_bytes,
        "disk_bytes_max": long_memory.disk_bytes_max,
        "is_written_three_times": long_memory.is_written_three_times,
    })
}

fn responses(responses: &ResponsesPlan) -> Value {
    json!({
        "retention_seconds": responses.retention.as_secs_f64(),
        "responses_per_second": responses.per_second,
        "responses": responses.responses,
        "record_bytes": responses.record_bytes,
        "budget_bytes": responses.budget_bytes,
        "redis_bytes": responses.redis_bytes,
        "sqlite_bytes": responses.sqlite_bytes,
    })
}

fn store(store: &StorePlan) -> Value {
    json!({
        "retention_seconds": store.retention.as_secs_f64(),
        "ids": store.ids,
        "redis_bytes": store.redis_bytes,
        "postgres_bytes": store.postgres_bytes,
        "fjall_bytes": store.fjall_bytes,
        "round_trips_saved_per_second": store.round_trips_saved_per_second,
        "asked_per_second_shared": store.asked_per_second_shared,
        "asked_per_second_exclusive": store.asked_per_second_exclusive,
    })
}
