//! The answer, in a few sentences in plain words.

use super::numbers::{bytes, count, digits, large, round, share, time};
use super::view::{Group, Line, View, Wrong};
use super::words::{self, list, plural};
use crate::measure::Sort;
use crate::measure::compare::RUNS_MIN;

/// Summarizes a report for a reader with one minute: which strategy is fastest, what that costs,
/// which were wrong, and where hapax loses.
pub fn sentences(view: &View) -> Vec<String> {
    let Some(main) = view.main() else { return Vec::new() };
    let mut sentences = Vec::new();
    for (sort, what) in WHATS {
        let begin = match sentences.is_empty() {
            true => format!("At {} on {} the", words::live(&main.setting), words::threads(main.setting.threads)),
            false => "The".into(),
        };
        sentences.extend(fastest(main, sort, &format!("{begin} fastest {what}")));
        if sort == Sort::Window {
            sentences.extend(memory(main));
        }
    }
    sentences.extend(wrong(view));
    sentences.extend(losses(view));
    sentences
}

const WHATS: [(Sort, &str); 4] = [
    (Sort::Window, "window in memory"),
    (Sort::Filter, "filter (in memory, may be wrong)"),
    (Sort::Durable, "strategy that survives a crash, in process,"),
    (Sort::Server, "strategy that shares its ids through a server"),
];

fn fastest(main: &Group, sort: Sort, what: &str) -> Option<String> {
    let best = main.of_sort(sort).find(|line| line.speed.is_some())?;
    let (speed, nanos) = (best.speed?, best.nanos?);
    let mut sentence = format!("{what} is {}: {} ids/s, {} an id", best.name, large(speed.median), time(nanos.median));
    match (best.ours, &best.versus) {
        (true, Some(versus)) => sentence.push_str(&format!(
            ", {} × as fast as {}, the fastest that isn't hapax{}",
            digits(versus.times),
            versus.rival,
            match versus.clear {
                true => "",
                false if versus.runs < RUNS_MIN => " (of so few runs: it may be chance)",
                false => " (no clear difference)",
            }
        )),
        (false, _) => {
            let ours = main.of_sort(sort).find(|line| line.ours).and_then(|line| Some((line, line.speed?)));
            if let Some((line, ours)) = ours {
                let times = digits(speed.median / ours.median);
                sentence.push_str(&format!(", {times} × as fast as {}, the fastest of hapax", line.name));
            }
        }
        (true, None) => {}
    }
    sentence.push('.');
    Some(sentence)
}

/// States the memory of the fastest window, and the strategy that takes least.
fn memory(main: &Group) -> Option<String> {
    let all = || main.of_sort(Sort::Window).filter_map(|line| Some((line, line.bytes?.median)));
    let (fastest, takes) =
        main.of_sort(Sort::Window).find(|line| line.speed.is_some()).and_then(|it| Some((it, it.bytes?)))?;
    let (least, least_takes) = all().min_by(|a, b| a.1.total_cmp(&b.1))?;
    // An untold figure may be smaller.
    let all_told = main.of_sort(Sort::Window).all(|line| line.bytes.is_some() || !line.is_measured());
    let of_all = if all_told { "the least of all" } else { "the least that can be told" };
    let whole = bytes(takes.median * main.setting.live as f64);
    let mut sentence = format!("{} takes {} bytes a live id ({whole} in all)", fastest.name, digits(takes.median));
    if least.row.strategy == fastest.row.strategy {
        let next = all().filter(|(line, _)| line.ours != fastest.ours).min_by(|a, b| a.1.total_cmp(&b.1));
        match next {
            Some((line, bytes)) => {
                sentence.push_str(&format!(", {of_all}; {} takes {}", line.name, digits(bytes)));
            }
            None => sentence.push_str(&format!(", {of_all}")),
        }
    } else {
        sentence.push_str(&format!("; {of_all} is {} with {}", least.name, digits(least_takes)));
    }
    sentence.push('.');
    Some(sentence)
}

/// States which strategies missed and which invented duplicates, over all settings without a
/// budget, where that would be the budget's fault.
fn wrong(view: &View) -> Vec<String> {
    let missed = of_kind(view, "missed duplicates", |line| line.missed);
    let invented = of_kind(view, "called new ids duplicates", |line| line.invented);
    missed.into_iter().chain(invented).collect()
}

fn of_kind(view: &View, what: &str, of: fn(&Line) -> Wrong) -> Option<String> {
    let sum = |name: &str| {
        let lines = view.lines().filter(|line| line.row.strategy == name && line.row.setting.budget_bytes.is_none());
        let add = |sum: Wrong, wrong: Wrong| Wrong {
            wrong: sum.wrong.saturating_add(wrong.wrong),
            of: sum.of.saturating_add(wrong.of),
            ..sum
        };
        lines.map(of).fold(Wrong { wrong: 0, of: 0, allowed: 0.0 }, add)
    };
    let strategies = view.strategies();
    let asked: Vec<(&str, Wrong)> =
        strategies.into_iter().map(|name| (name, sum(name))).filter(|(_, wrong)| wrong.of > 0).collect();
    let mut who: Vec<_> = asked.iter().filter(|(_, wrong)| wrong.wrong > 0).collect();
    who.sort_by(|a, b| a.1.share().total_cmp(&b.1.share()));
    let say = |(name, wrong): &&(&str, Wrong)| {
        format!("{name} ({} of {}: {})", count(wrong.wrong), round(wrong.of as f64), share(wrong.share()))
    };
    let names: Vec<String> = who.iter().map(say).collect();
    let all = plural(asked.len(), "strategy", "strategies");
    match (asked.len(), names.len()) {
        (0, _) => None,
        (_, 0) => Some(format!("None of {all} {what}.")),
        (_, wrong) => Some(format!("{wrong} of {all} {what}: {}.", list(&names))),
    }
}

/// States where a rival is better beyond the spread of the runs, in speed, latency or memory.
fn losses(view: &View) -> Vec<String> {
    let compared: Vec<&Line> = view.lines().filter(|line| line.ours && line.versus.is_some()).collect();
    let (told, untold): (Vec<&Line>, Vec<&Line>) = compared.into_iter().partition(|line| has_enough_runs(line));
    let mut sentences: Vec<String> = speed_losses(&told).into_iter().chain(by_chance(&untold)).collect();
    sentences.extend(view.groups.iter().rev().find_map(latency_loss));
    sentences.extend(view.main().and_then(memory_loss));
    sentences
}

fn speed_losses(compared: &[&Line]) -> Option<String> {
    let slower: Vec<&Line> = compared.iter().copied().filter(|line| loses(line)).collect();
    let places = plural(compared.len(), "comparison", "comparisons");
    let sentence = match slower.iter().min_by(|a, b| times(a).total_cmp(&times(b))) {
        None => format!("In speed hapax loses none of {places} with the fastest rival of its sort."),
        Some(worst) => format!(
            "In speed hapax loses {} of {places} with the fastest rival of its sort; worst: {}, {} × as fast as {} at {} on {}.",
            slower.len(),
            worst.name,
            digits(times(worst)),
            worst.versus.as_ref().map_or("", |versus| &versus.rival),
            words::live(&worst.row.setting),
            words::threads(worst.row.setting.threads),
        ),
    };
    (!compared.is_empty()).then_some(sentence)
}

/// Returns the sentence about comparisons that cannot be told for lack of runs: both counts.
fn by_chance(compared: &[&Line]) -> Option<String> {
    let slower = compared.iter().filter(|line| times(line) < 1.0).count();
    let sentence = format!(
        "In {} with the fastest rival of its sort, of fewer than {RUNS_MIN} runs a side, hapax is as fast or faster in {}, and slower in {slower}: \
         either may be chance.",
        plural(compared.len(), "comparison", "comparisons"),
        compared.len() - slower,
    );
    (!compared.is_empty()).then_some(sentence)
}

fn has_enough_runs(line: &Line) -> bool {
    line.versus.as_ref().is_some_and(|versus| versus.runs >= RUNS_MIN)
}

fn loses(line: &Line) -> bool {
    line.versus.as_ref().is_some_and(|versus| versus.clear && versus.times < 1.0)
}

fn times(line: &Line) -> f64 {
    line.versus.as_ref().map_or(f64::INFINITY, |versus| versus.times)
}

/// Names the setting in which a rival of the same sort has the shorter p99.9.
fn latency_loss(group: &Group) -> Option<String> {
    let of = |line: &Line| line.quantiles[2].filter(|_| !line.fell_behind());
    let best = |sort: Sort, ours: bool| {
        let lines = group.of_sort(sort).filter(|line| line.ours == ours).filter_map(|line| Some((line, of(line)?)));
        lines.min_by(|a, b| a.1.median.total_cmp(&b.1.median))
    };
    let sorts = [Sort::Window, Sort::Filter, Sort::Durable, Sort::Server];
    sorts.into_iter().find_map(|sort| {
        let ((ours, our), (rival, its)) = (best(sort, true)?, best(sort, false)?);
        (our.median > its.median && our.is_apart_from(&its)).then(|| {
            format!(
                "In latency it loses at {} ids/s on {}{}: p99.9 of {} is {}, that of {} {}.",
                round(group.setting.rate.unwrap_or(0.0)),
                words::threads(group.setting.threads),
                if our.runs.min(its.runs) < RUNS_MIN { ", unless that is chance with so few runs" } else { "" },
                ours.name,
                time(our.median),
                rival.name,
                time(its.median),
            )
        })
    })
}

/// States where a rival of the same sort takes less memory than the leanest of ours.
fn memory_loss(main: &Group) -> Option<String> {
    let least = |sort: Sort, ours: bool| {
        let lines =
            main.of_sort(sort).filter(|line| line.ours == ours).filter_map(|line| Some((line, line.all_bytes?.median)));
        lines.min_by(|a, b| a.1.total_cmp(&b.1))
    };
    let losses: Vec<String> = [Sort::Window, Sort::Filter, Sort::Durable, Sort::Server]
        .into_iter()
        // A strategy of ours that takes too little to be told takes less than all that are told.
        .filter(|&sort| main.of_sort(sort).all(|line| !line.ours || line.all_bytes.is_some() || !line.is_measured()))
        .filter_map(|sort| {
            let ((_, ours), (rival, its)) = (least(sort, true)?, least(sort, false)?);
            (its < 0.97 * ours).then(|| {
                format!(
                    "{} ({} bytes a live id against {}, {})",
                    rival.name,
                    digits(its),
                    digits(ours),
                    words::sort(sort)
                )
            })
        })
        .collect();
    (!losses.is_empty()).then(|| format!("Less memory than hapax takes: {}.", list(&losses)))
}
