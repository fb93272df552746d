//! The answer for people.

use super::command::filter_options;
use super::{Answer, Observed};
use hapax_plan::{Bytes, Plan, Time};
use std::fmt::Write;

pub fn answer(answer: &Answer) -> String {
    let mut text = String::new();
    if let Some(seen) = &answer.seen {
        text += &what_has_come(seen);
    }
    match &answer.plan {
        Some(plan) => text += &planned(plan),
        None => text += "These records have no times: with --rate there is a plan for them, too.",
    }
    text.truncate(text.trim_end().len());
    text
}

fn what_has_come(seen: &Observed) -> String {
    let mut text = format!("What has come\n{}", seen.summary);
    let mut line = |text_of_line: String| writeln!(text, "{text_of_line}").expect("a string takes everything");
    if let Some(by) = &seen.window {
        let repeats = seen.summary.repeats;
        let of_repeats = |caught: u64| format!("{caught} ({:.3} %)", 100.0 * caught as f64 / repeats.max(1) as f64);
        let missed_a_day = |caught: u64| {
            let days = by.span.as_secs_f64() / 86_400.0;
            format!("misses {}, {:.2} a day", repeats - caught, (repeats - caught) as f64 / days)
        };
        let caught = format!("window of {} catches {} of the repeats", Time(by.window), of_repeats(by.caught));
        match by.caught_by_engine {
            Some(caught_by_engine) => {
                line(format!("A {caught}."));
                line("An engine with it, which remembers ids for up to two ticks longer, catches".to_string());
                line(format!("{}, and {}.", of_repeats(caught_by_engine), missed_a_day(caught_by_engine)));
            }
            None => {
                line(format!("At the rate given, a {caught},"));
                line(format!("and {}.", missed_a_day(by.caught)));
            }
        }
        if by.is_knee {
            line("It is the knee of the curve: more length catches less than 0.1 % for each doubling.".to_string());
        }
        if let Some(all) = &by.all {
            let uncaught = of_repeats(repeats - by.caught);
            line(format!("It leaves {uncaught} uncaught. To catch all takes a window of"));
            line(match all.ids {
                Some(ids) => format!("{}, in which up to {ids} ids come.", Time(all.window)),
                None => format!("{}.", Time(all.window)),
            });
        }
        if let Some(caught) = by.caught_with_history {
            line(format!("With its history, at least {}; it {}.", of_repeats(caught), missed_a_day(caught)));
        }
        by.cautions.iter().for_each(|caution| line(format!("\n{}", wrapped(&format!("Caution. {caution}")))));
    }
    text + "\n"
}

/// The width of the answer.
const WIDTH: usize = 80;

/// Breaks a text into lines between words.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => *line += word,
            Some(line) if line.len() + 1 + word.len() < WIDTH => *line += &format!(" {word}"),
            _ => lines.push(word.to_string()),
        }
    }
    lines.join("\n")
}

/// The note why the filter's capacity is not the builder's.
const WHY_LARGER: &str = "\
The filter's capacity is larger, where the memory allows it: it has no thread
that makes its window grow, so it grows at six sevenths of it. It takes";

fn planned(plan: &Plan) -> String {
    let call = plan.builder_call();
    if plan.long_memory.is_some() {
        return format!("{plan}\nIn Rust\n{call}\n"); // The filter has no long memory.
    }
    let options = filter_options(plan);
    let bytes = Bytes(plan.filter_bytes() as f64);
    format!(
        "{plan}\nIn Rust\n{call}\n\nOn the command line\nhapax filter {options}\n\n{WHY_LARGER}\n{bytes} to begin with.\n"
    )
}
