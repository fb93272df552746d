//! The answer, in a few sentences in plain words.

use super::matrix::Entry;
use super::view::{Group, Line, SORTS, View};
use super::words::{self, bytes, list, number, plural, share, time};
use crate::measure::figures::{RUNS_MIN, Wrong};
use crate::measure::{Setting, Sort};

/// The needs that a reader may have, and the sort of strategy that meets each.
const NEEDS: [(Sort, &str); 3] = [
    (Sort::Window, "one process checks, and may forget what it knows when it crashes"),
    (Sort::Durable, "ids have to survive a crash, and one process checks"),
    (Sort::Server, "several processes share the ids"),
];

/// Says which strategy to take for which need: the fastest that gave no more wrong answers than it
/// promises. If there are several workloads, says first how ours compare over all of them.
pub fn advice(view: &View, entries: &[Entry]) -> Vec<String> {
    let taken = NEEDS.iter().filter_map(|(sort, need)| take(view, entries, *sort, need));
    means(view).into_iter().chain(taken).collect()
}

/// States the geometric mean of ours against the fastest rival, over workloads and kinds of ids:
/// one mean for each strategy, and for ids one by one and in batches.
fn means(view: &View) -> Vec<String> {
    let ours = |name: &&str| view.lines_of(name).any(|line| line.ours && line.row.sort == Sort::Window);
    let strategies = view.strategies().into_iter().filter(ours);
    strategies.flat_map(|name| [false, true].map(|batched| mean(view, name, batched))).flatten().collect()
}

fn mean(view: &View, name: &str, batched: bool) -> Option<String> {
    let is_it = |line: &&Line| (line.row.setting.batch > 1) == batched && line.versus.is_some();
    let compared: Vec<&Line> = view.lines_of(name).filter(is_it).collect();
    let worst = compared.iter().min_by(|a, b| times(a).total_cmp(&times(b)))?;
    let best = compared.iter().map(|line| times(line)).fold(0.0, f64::max);
    let mut workloads = Vec::new();
    for Setting { workload, ids, .. } in compared.iter().map(|line| &line.row.setting) {
        if !workloads.contains(&(workload, *ids)) {
            workloads.push((workload, *ids));
        }
    }
    if workloads.len() < 2 {
        return None;
    }
    let mean = compared.iter().map(|line| times(line).ln()).sum::<f64>() / compared.len() as f64;
    let setting = &worst.row.setting;
    Some(format!(
        "Over {} of {} workloads, {name} with ids {} is {} × as fast as the fastest rival of each, by the geometric \
         mean: from {} × ({}, {}) to {} ×.",
        plural(compared.len(), "setting", "settings"),
        workloads.len(),
        if batched { "in batches" } else { "one by one" },
        number(mean.exp()),
        number(times(worst)),
        words::live(setting),
        words::stream(setting),
        number(best),
    ))
}

fn take(view: &View, entries: &[Entry], sort: Sort, need: &str) -> Option<String> {
    let of_sort = |entry: &&Entry| entry.sort == sort && entry.is_right();
    let speed = |entry: &Entry| entry.best().and_then(|line| line.speed).map_or(0.0, |speed| speed.median);
    let best = entries.iter().filter(of_sort).max_by(|a, b| speed(a).total_cmp(&speed(b)))?;
    let versus = match &best.best()?.versus {
        Some(versus) if best.ours => {
            let how = match (versus.clear, versus.runs < RUNS_MIN) {
                (true, _) => "",
                (false, true) => " (of so few runs: it may be chance)",
                (false, false) => " (no clear difference)",
            };
            format!("; {} × as fast as {}, the fastest that isn't hapax{how}", number(versus.times), versus.rival)
        }
        Some(_) => {
            let ours = entries.iter().filter(of_sort).filter(|entry| entry.ours);
            let ours = ours.max_by(|a, b| speed(a).total_cmp(&speed(b)));
            let than = |ours: &Entry| {
                let times = number(speed(best) / speed(ours));
                format!("; {times} × as fast as {}, the fastest of hapax", ours.name)
            };
            ours.map_or_else(String::new, than)
        }
        None => String::new(),
    };
    let least = if sort == Sort::Window { memory(view.main()?) } else { None };
    Some(format!("Take {} if {need}: {}{versus}{}.", best.name, best.figures(), least.unwrap_or_default()))
}

/// States the window that takes least memory.
fn memory(main: &Group) -> Option<String> {
    let told = main.of_sort(Sort::Window).filter_map(|line| Some((line, line.all_bytes?.median)));
    let (least, takes) = told.min_by(|a, b| a.1.total_cmp(&b.1))?;
    // An untold figure may be smaller.
    let all_told = main.of_sort(Sort::Window).all(|line| line.all_bytes.is_some() || !line.is_measured());
    let of_all = if all_told { "the least of all" } else { "the least that can be told" };
    let whole = bytes(takes * main.setting.live as f64);
    Some(format!("; of memory {of_all} takes {}, with {} bytes a live id ({whole})", least.row.strategy, number(takes)))
}

/// States which strategies were wrong, and where a rival is better beyond the spread of the runs,
/// in speed, latency or memory.
pub fn caveats(view: &View, entries: &[Entry]) -> Vec<String> {
    let wrong = [
        of_kind(entries, "missed duplicates", |entry| entry.missed),
        of_kind(entries, "called new ids duplicates", |entry| entry.invented),
    ];
    let compared = view.lines().filter(|line| line.ours && line.versus.is_some());
    let (told, untold): (Vec<&Line>, Vec<&Line>) = compared.partition(|line| runs(line) >= RUNS_MIN);
    let latency = view.groups.iter().rev().find_map(latency_loss);
    let all = wrong.into_iter().chain([speed_losses(&told), by_chance(&untold), latency]);
    all.chain([view.main().and_then(memory_loss)]).flatten().collect()
}

fn of_kind(entries: &[Entry], what: &str, of: fn(&Entry) -> Wrong) -> Option<String> {
    let strategies = entries.iter().filter(|entry| entry.sort != Sort::Roofline);
    let asked: Vec<(&str, Wrong)> =
        strategies.map(|entry| (entry.name, of(entry))).filter(|(_, wrong)| wrong.of > 0).collect();
    let mut who: Vec<_> = asked.iter().filter(|(_, wrong)| wrong.wrong > 0).collect();
    who.sort_by(|a, b| a.1.share().total_cmp(&b.1.share()));
    let say = |(name, wrong): &&(&str, Wrong)| {
        format!("{name} ({} of {}: {})", number(wrong.wrong as f64), number(wrong.of as f64), share(wrong.share()))
    };
    let names: Vec<String> = who.iter().map(say).collect();
    let all = plural(asked.len(), "strategy", "strategies");
    match (asked.len(), names.len()) {
        (0, _) => None,
        (_, 0) => Some(format!("None of {all} {what}.")),
        (_, wrong) => Some(format!("{wrong} of {all} {what}: {}.", list(&names))),
    }
}

fn speed_losses(compared: &[&Line]) -> Option<String> {
    let loses = |line: &&&Line| line.versus.as_ref().is_some_and(|versus| versus.clear && versus.times < 1.0);
    let slower: Vec<&Line> = compared.iter().filter(loses).copied().collect();
    let places = plural(compared.len(), "comparison", "comparisons");
    let rival = "with the fastest rival of its sort";
    let sentence = match slower.iter().min_by(|a, b| times(a).total_cmp(&times(b))) {
        None => format!("In speed hapax loses none of {places} {rival}."),
        Some(worst) => format!(
            "In speed hapax loses {} of {places} {rival}; worst: {}, {} × as fast as {} at {} on {}.",
            slower.len(),
            worst.name,
            number(times(worst)),
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

fn runs(line: &Line) -> usize {
    line.versus.as_ref().map_or(0, |versus| versus.runs)
}

fn times(line: &Line) -> f64 {
    line.versus.as_ref().map_or(f64::INFINITY, |versus| versus.times)
}

/// Returns the line of a sort, ours or not, with the smallest value.
fn best<'g>(
    group: &'g Group,
    sort: Sort,
    ours: bool,
    of: impl Fn(&Line) -> Option<f64>,
) -> Option<(&'g Line<'g>, f64)> {
    let lines = group.of_sort(sort).filter(|line| line.ours == ours).filter_map(|line| Some((line, of(line)?)));
    lines.min_by(|a, b| a.1.total_cmp(&b.1))
}

/// Names the setting in which a rival of the same sort has the shorter p99.9.
fn latency_loss(group: &Group) -> Option<String> {
    SORTS.into_iter().find_map(|sort| {
        let tail = |line: &Line| line.tail().map(|tail| tail.median);
        let ((ours, our), (rival, its)) = (best(group, sort, true, tail)?, best(group, sort, false, tail)?);
        let (ours_runs, rivals_runs) = (ours.tail()?, rival.tail()?);
        let few = ours_runs.runs.min(rivals_runs.runs) < RUNS_MIN;
        (our > its && ours_runs.is_apart_from(&rivals_runs)).then(|| {
            format!(
                "In latency it loses at {} ids/s on {}{}: p99.9 of {} is {}, that of {} {}.",
                number(group.setting.rate.unwrap_or(0.0)),
                words::threads(group.setting.threads),
                if few { ", unless that is chance with so few runs" } else { "" },
                ours.name,
                time(our),
                rival.name,
                time(its),
            )
        })
    })
}

/// States where a rival of the same sort takes less memory than the leanest of ours.
fn memory_loss(main: &Group) -> Option<String> {
    let bytes = |line: &Line| line.all_bytes.map(|bytes| bytes.median);
    // A strategy of ours that takes too little to be told takes less than all that are told.
    let is_told = |line: &Line| !line.ours || line.all_bytes.is_some() || !line.is_measured();
    let loss = |sort: Sort| {
        let ((_, ours), (rival, its)) = (best(main, sort, true, bytes)?, best(main, sort, false, bytes)?);
        let (noun, name) = (words::noun(sort), &rival.name);
        let loses = its < 0.97 * ours && main.of_sort(sort).all(is_told);
        loses.then(|| format!("{name} ({} bytes a live id against {}, {noun})", number(its), number(ours)))
    };
    let losses: Vec<String> = SORTS.into_iter().filter_map(loss).collect();
    (!losses.is_empty()).then(|| format!("Less memory than hapax takes: {}.", list(&losses)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::measurement::Measurement;
    use crate::measure::{Machine, Report, Row, Workload};

    /// A row of a strategy that checks so many ids a second.
    fn row(strategy: &str, duplicates: f64, batch: usize, speed: f64) -> Row {
        let workload = Workload { duplicates, ..Setting::default().workload };
        let setting = Setting { workload, batch, ..Setting::default() };
        let run = Measurement { checks: speed as u64, nanos: 1_000_000_000, ..Measurement::default() };
        let (strategy, sort, runs) = (strategy.to_owned(), Sort::Window, vec![run]);
        Row { strategy, sort, setting, runs, failures: Vec::new(), may_miss: 0.0, may_invent: 0.0 }
    }

    #[test]
    fn several_workloads_have_a_mean_and_one_has_none() {
        let text = String::new;
        let (processor, system, compiler, libraries) = (text(), text(), text(), Vec::new());
        let machine = Machine { processor, processors: 1, memory_bytes: 0, system, compiler, libraries };
        let (format, command, rows, absent) = (Report::FORMAT, text(), Vec::new(), Vec::new());
        let mut report =
            Report { format, began_unix_seconds: 0, command, seed: 0, machine, rows, absent, interrupted: false };
        for (duplicates, ours) in [(0.1, 2e6), (0.9, 8e6)] {
            report.rows.push(row("hapax window", duplicates, 1, ours));
            report.rows.push(row("scc", duplicates, 1, 1e6));
        }
        let said = means(&View::of(&report));
        assert_eq!(said.len(), 1, "{said:?}");
        for part in [
            "Over 2 settings of 2 workloads, hapax window with ids one by one is 4 ×",
            "from 2 × (",
            "10 % redelivered",
            "to 8 ×.",
        ] {
            assert!(said[0].contains(part), "{said:?} has no {part}");
        }
        report.rows.truncate(2);
        assert!(means(&View::of(&report)).is_empty());
    }
}
