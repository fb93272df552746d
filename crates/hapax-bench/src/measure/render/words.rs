//! Settings, strategies and figures in words.

use crate::measure::figures::Wrong;
use crate::measure::{IdKind, Row, Setting, Shape, Sort};
use hapax_plan::{Count, Share, rough};
use std::time::Duration;

/// Prints a number with three digits; what is no number is a dash.
pub fn number(number: f64) -> String {
    if number.is_finite() { Count(number).to_string() } else { "–".into() }
}

pub fn time(nanos: f64) -> String {
    rough(Duration::from_nanos(nanos as u64))
}

pub fn share(share: f64) -> String {
    if share.is_finite() { Share(share).to_string() } else { "–".into() }
}

/// Prints seconds since 1970 as the date and time of day, in UTC.
pub fn date(unix_seconds: u64) -> String {
    let time = i64::try_from(unix_seconds).ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    time.map_or_else(|| "at no known time".into(), |time| time.strftime("%F %H:%M UTC").to_string())
}

/// The three ways in which ids come, and what each is.
pub const WAYS: (&str, &str) = (
    "one by one, read ahead, batches",
    "an id is checked when it comes; it is prepared while the one before it is checked, which only hapax has a call \
     for; many are handed over at once",
);

/// Returns the way in which ids come, if it is not one by one.
fn way(setting: &Setting) -> Option<String> {
    match setting.batch {
        0 | 1 => setting.ahead.then(|| "read ahead".into()),
        batch => Some(format!("batches of {}", number(batch as f64))),
    }
}

/// Returns a row's name where rows of several ways meet.
pub fn name(row: &Row) -> String {
    way(&row.setting).map_or(row.strategy.clone(), |way| format!("{}, {way}", row.strategy))
}

/// Describes a setting, the way included.
pub fn described(setting: &Setting) -> String {
    format!("{}, {}", self::setting(setting), way(setting).as_deref().unwrap_or("one by one"))
}

/// Describes what is the same for all rows of a group: everything but the way.
pub fn setting(setting: &Setting) -> String {
    let Setting { workload, ids, live, threads, work, huge_pages, .. } = setting;
    let ids = match ids {
        IdKind::U64 => "u64",
        IdKind::UuidText => "UUIDs as text",
        IdKind::Key200 => "keys of 200 bytes",
    };
    let stream = match &workload.shape {
        Shape::Uniform => {
            let (duplicates, distance) = (share(workload.duplicates), share(workload.distance_windows));
            format!("uniform, {duplicates} redelivered within {distance} of a window")
        }
        Shape::Zipf { exponent } => format!("Zipf, exponent {exponent}"),
    };
    let threads = plural(*threads, "thread", "threads");
    let mut words = format!("{} live ids ({ids}), {threads}, {stream}", number(*live as f64));
    if let Some(rate) = setting.rate {
        words += &format!(", {} ids/s due", number(rate));
    }
    if *work > 0 {
        words += &format!(", a message of {} bytes decoded between checks", number(*work as f64));
    }
    if *huge_pages {
        words += ", all on huge pages";
    }
    words
}

pub fn noun(sort: Sort) -> &'static str {
    match sort {
        Sort::Window => "window in memory",
        Sort::Durable => "durable strategy",
        Sort::Server => "strategy on a server",
    }
}

/// Describes wrong answers: "1.4e-5 (1.1e-5 to 1.8e-5)"; an exclamation mark for more than a row
/// may give. If all of them may be wrong, they are not the strategy's.
pub fn wrong(wrong: &Wrong) -> String {
    let [lower, upper] = wrong.interval().map(share);
    match wrong.wrong {
        _ if wrong.allowed >= 1.0 => "n/a: its own clock".into(),
        _ if wrong.of == 0 => String::new(),
        0 => format!("< {upper}"),
        _ => format!("{} ({lower} to {upper}){}", share(wrong.share()), if wrong.is_broken() { " !" } else { "" }),
    }
}

pub fn plural(count: usize, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{} {many}", number(count as f64)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_described_with_all_that_is_unusual() {
        let plain = "100 k live ids (u64), 1 thread, uniform, 10 % redelivered within 10 % of a window";
        assert_eq!(described(&Setting::default()), format!("{plain}, one by one"));
        let unusual = Setting { threads: 2, batch: 64, rate: Some(1e5), huge_pages: true, ..Setting::default() };
        let text = described(&unusual);
        let end = "100 k ids/s due, all on huge pages, batches of 64";
        assert!(text.contains("2 threads") && text.ends_with(end), "{text}");
        let work = described(&Setting { work: 500, ..Setting::default() });
        assert!(work.ends_with("a message of 500 bytes decoded between checks, one by one"), "{work}");
        assert!(described(&Setting { ahead: true, ..Setting::default() }).ends_with("a window, read ahead"));
    }

    #[test]
    fn dates_and_what_is_no_number() {
        assert_eq!(date(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(date(u64::MAX), "at no known time");
        assert_eq!([number(f64::NAN), share(f64::INFINITY), number(1_234.0)], ["–", "–", "1,234"]);
        assert_eq!([27.0, 1.2e6].map(time), ["27 ns", "1.2 ms"]);
    }
}
