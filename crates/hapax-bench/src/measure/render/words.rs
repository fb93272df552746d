//! Settings, strategies and figures in words.

use crate::measure::figures::Wrong;
use crate::measure::{IdKind, Row, Setting, Shape, Sort};
use hapax_plan::{Bytes, Count, Share, rough};
use std::time::Duration;

/// Prints a number with three digits; what is no number is a dash.
pub fn number(number: f64) -> String {
    if number.is_finite() { Count(number).to_string() } else { "–".into() }
}

pub fn count(count: u64) -> String {
    number(count as f64)
}

pub fn time(nanos: f64) -> String {
    rough(Duration::from_nanos(nanos as u64))
}

pub fn share(share: f64) -> String {
    if share.is_finite() { Share(share).to_string() } else { "–".into() }
}

pub fn bytes(bytes: f64) -> String {
    Bytes(bytes).to_string()
}

/// Prints seconds since 1970 as the date and time of day, in UTC.
pub fn date(unix_seconds: u64) -> String {
    let time = i64::try_from(unix_seconds).ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    time.map_or_else(|| "at no known time".into(), |time| time.strftime("%F %H:%M UTC").to_string())
}

/// Returns a row's name where rows of several batch sizes meet.
pub fn name(row: &Row) -> String {
    match row.setting.batch {
        0 | 1 => row.strategy.clone(),
        batch => format!("{}, batches of {}", row.strategy, count(batch as u64)),
    }
}

/// Describes a setting, batch size included.
pub fn described(setting: &Setting) -> String {
    match setting.batch {
        0 | 1 => format!("{}, one by one", self::setting(setting)),
        batch => format!("{}, batches of {}", self::setting(setting), count(batch as u64)),
    }
}

/// Describes what is the same for all rows of a group: everything but the batch size.
pub fn setting(setting: &Setting) -> String {
    format!("{}, {}, {}", live(setting), threads(setting.threads), stream(setting))
}

pub fn live(setting: &Setting) -> String {
    let ids = match setting.ids {
        IdKind::U64 => "u64",
        IdKind::Uuid => "UUIDs, 16 bytes",
        IdKind::UuidText => "UUIDs as text",
        IdKind::Key200 => "keys of 200 bytes",
        IdKind::Bytes => "bytes",
    };
    format!("{} live ids ({ids})", number(setting.live as f64))
}

pub fn threads(threads: usize) -> String {
    plural(threads, "thread", "threads")
}

/// Describes which ids come, and under which limits.
pub fn stream(setting: &Setting) -> String {
    let workload = &setting.workload;
    let mut words = match &workload.shape {
        Shape::Zipf { exponent } => format!("Zipf, exponent {exponent}"),
        Shape::Trace { path } => format!("ids of {}", path.display()),
        shape => {
            let shape = match shape {
                Shape::Rebalance => "bursts after a rebalance",
                Shape::RetryStorm => "retry storms",
                Shape::Prefixes => "long common prefixes",
                _ => "uniform",
            };
            let (duplicates, distance) = (share(workload.duplicates), share(workload.distance_windows));
            format!("{shape}, {duplicates} redelivered within {distance} of a window")
        }
    };
    if setting.think_nanos > 0 {
        words += &format!(", {} between two calls", time(setting.think_nanos as f64));
    }
    if let Some(rate) = setting.rate {
        words += &format!(", {} ids/s due", number(rate));
    }
    if let Some(budget) = setting.budget_bytes {
        words += &format!(", a budget of {}", bytes(budget as f64));
    }
    words
}

pub fn noun(sort: Sort) -> &'static str {
    match sort {
        Sort::Roofline => "roofline",
        Sort::Window => "window in memory",
        Sort::Filter => "filter in memory",
        Sort::Durable => "durable strategy",
        Sort::Server => "strategy on a server",
    }
}

/// Describes wrong answers: "86 of 6 M: 1.4e-5 (1.1e-5 to 1.8e-5)".
pub fn wrong(wrong: &Wrong) -> String {
    let interval = wrong.interval();
    let asked = number(wrong.of as f64);
    let (lower, upper) = (share(interval.lower), share(interval.upper));
    match wrong.wrong {
        0 => format!("0 of {asked}: < {upper}"),
        wrongs => format!("{} of {asked}: {} ({lower} to {upper})", count(wrongs), share(wrong.share())),
    }
}

/// Lists names: "a, b and c", at most as many as fit a sentence.
pub fn list(names: &[String]) -> String {
    const MOST: usize = 4;
    match names {
        [] => "none".into(),
        [only] => only.clone(),
        [most @ .., last] if names.len() <= MOST => format!("{} and {last}", most.join(", ")),
        _ => format!("{} and {} more", names[..MOST - 1].join(", "), names.len() - MOST + 1),
    }
}

pub fn plural(count: usize, one: &str, many: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        _ => format!("{} {many}", number(count as f64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_described_with_all_that_is_unusual() {
        let plain = "100 k live ids (u64), 1 thread, uniform, 10 % redelivered within 10 % of a window";
        assert_eq!(described(&Setting::default()), format!("{plain}, one by one"));
        let unusual =
            Setting { threads: 2, batch: 64, rate: Some(1e5), budget_bytes: Some(409_600), ..Setting::default() };
        let text = described(&unusual);
        assert!(
            text.contains("2 threads") && text.ends_with("100 k ids/s due, a budget of 400 KiB, batches of 64"),
            "{text}"
        );
    }

    #[test]
    fn dates_and_what_is_no_number() {
        assert_eq!(date(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(date(u64::MAX), "at no known time");
        assert_eq!([number(f64::NAN), share(f64::INFINITY), number(1_234.0)], ["–", "–", "1,234"]);
        assert_eq!([27.0, 1.2e6].map(time), ["27 ns", "1.2 ms"]);
    }

    #[test]
    fn lists_are_as_long_as_a_sentence() {
        let names: Vec<String> = ["a", "b", "c", "d", "e"].map(String::from).into();
        assert_eq!([list(&names[..1]), list(&names[..3]), list(&names)], ["a", "a, b and c", "a, b, c and 2 more"]);
    }
}
