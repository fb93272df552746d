//! The answer for people.

use super::{Answer, Seen};
use hapax::plan::Plan;
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

fn what_has_come(seen: &Seen) -> String {
    let mut text = format!("What has come\n{}", seen.summary);
    if let Some(by) = &seen.window {
        let percent = |caught: u64| 100.0 * caught as f64 / seen.summary.repeats.max(1) as f64;
        writeln!(
            text,
            "A window of {:?} catches {} of {} repeats ({:.3} %); an engine with it,\n\
             which remembers ids for up to two ticks longer, {} ({:.3} %), and so does\n\
             `hapax filter --window`.",
            by.window,
            by.caught,
            seen.summary.repeats,
            percent(by.caught),
            by.caught_by_engine,
            percent(by.caught_by_engine),
        )
        .expect("a string takes everything");
    }
    text + "\n"
}

fn planned(plan: &Plan) -> String {
    format!("{plan}\nIn Rust\n{}\n\nOn the command line\nhapax filter {}\n", plan.builder_call(), plan.filter_options())
}
