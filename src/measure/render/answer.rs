//! The answer, in a few sentences in plain words.

use super::numbers::{bytes, count, digits, large, share, time};
use super::view::{Group, Line, View};
use super::words::{self, list, plural};
use crate::measure::Sort;

/// What one would say if one had a minute: who is fastest, what that costs, who was wrong, and where hapax loses.
pub fn sentences(view: &View) -> Vec<String> {
    let Some(main) = view.main() else { return Vec::new() };
    let mut sentences = Vec::new();
    sentences.extend(fastest(main, Sort::Window, "window (exact, in memory)"));
    sentences.extend(memory(main));
    sentences.extend(fastest(main, Sort::Filter, "filter (in memory, may be wrong)"));
    sentences.extend(fastest(main, Sort::Durable, "strategy that survives a crash, in process"));
    sentences.extend(fastest(main, Sort::Server, "strategy that shares its ids through a server"));
    sentences.extend(wrong(view));
    sentences.extend(losses(view));
    sentences
}

fn fastest(main: &Group, sort: Sort, what: &str) -> Option<String> {
    let best = main.of_sort(sort).find(|line| line.speed.is_some())?;
    let (speed, nanos) = (best.speed?, best.nanos?);
    let mut sentence = format!(
        "Fastest {what}, at {} on {}: {}, {} ids/s ({} an id)",
        words::live(&main.setting),
        words::threads(main.setting.threads),
        best.name,
        large(speed.median),
        time(nanos.median),
    );
    match (best.ours, &best.versus) {
        (true, Some(versus)) => sentence.push_str(&format!(
            ", {} × as fast as {}, the fastest that isn't hapax{}",
            digits(versus.times),
            versus.rival,
            if versus.clear { "" } else { " (no clear difference)" }
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

/// What the fastest window takes, and who takes least.
fn memory(main: &Group) -> Option<String> {
    let all = || main.of_sort(Sort::Window).filter_map(|line| Some((line, line.bytes?.median)));
    let (fastest, takes) =
        main.of_sort(Sort::Window).find(|line| line.speed.is_some()).and_then(|it| Some((it, it.bytes?)))?;
    let (least, least_takes) = all().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let whole = bytes(takes.median * main.setting.live as f64);
    let mut sentence = format!("{} takes {} bytes a live id ({whole} in all)", fastest.name, digits(takes.median));
    if least.row.strategy == fastest.row.strategy {
        let next =
            all().filter(|(line, _)| line.row.strategy != fastest.row.strategy).min_by(|a, b| a.1.total_cmp(&b.1));
        match next {
            Some((line, bytes)) => {
                sentence.push_str(&format!(", the least of all; next is {} with {}", line.name, digits(bytes)));
            }
            None => sentence.push_str(", the least of all"),
        }
    } else {
        sentence.push_str(&format!("; the least is {} with {}", least.name, digits(least_takes)));
    }
    sentence.push('.');
    Some(sentence)
}

/// Who missed and who invented duplicates, over all settings without a budget, where that would be the budget's fault.
fn wrong(view: &View) -> Vec<String> {
    let judged =
        |line: &&Line| line.row.sort != Sort::Roofline && line.is_measured() && line.row.setting.budget_bytes.is_none();
    let judged: Vec<&Line> = view.lines().filter(judged).collect();
    let strategies = view.strategies();
    let kinds: [(&str, fn(&Line) -> (u64, u64)); 2] = [
        ("missed duplicates", |line| (line.missed.wrong, line.missed.of)),
        ("called new ids duplicates", |line| (line.invented.wrong, line.invented.of)),
    ];
    let mut sentences = Vec::new();
    for (what, of) in kinds {
        let sum = |name: &str| {
            let lines = judged.iter().filter(|line| line.row.strategy == name);
            lines.map(|line| of(line)).fold((0_u64, 0_u64), |a, b| (a.0.saturating_add(b.0), a.1.saturating_add(b.1)))
        };
        let counts: Vec<(&str, (u64, u64))> = strategies.iter().map(|name| (*name, sum(name))).collect();
        let mut who: Vec<_> = counts.iter().filter(|(_, (wrong, _))| *wrong > 0).collect();
        who.sort_by(|a, b| ratio(a.1).total_cmp(&ratio(b.1)));
        let asked = counts.iter().filter(|(_, (_, of))| *of > 0).count();
        if asked == 0 {
            continue;
        }
        let names: Vec<String> = who
            .iter()
            .map(|(name, of)| format!("{name} ({} of {}: {})", count(of.0), words_of(of.1), share(ratio(*of))))
            .collect();
        sentences.push(match names.len() {
            0 => format!("None of {} {what}.", plural(asked, "strategy", "strategies")),
            wrong => format!("{wrong} of {} {what}: {}.", plural(asked, "strategy", "strategies"), list(&names)),
        });
    }
    sentences
}

fn ratio((wrong, of): (u64, u64)) -> f64 {
    wrong as f64 / of.max(1) as f64
}

fn words_of(number: u64) -> String {
    super::numbers::round(number as f64)
}

/// Where a rival is better beyond the spread of the runs, in speed, latency or memory.
fn losses(view: &View) -> Vec<String> {
    let mut sentences = Vec::new();
    let compared = |line: &&Line| line.ours && line.versus.is_some();
    let all = view.lines().filter(compared).count();
    let slower: Vec<&Line> = view.lines().filter(compared).filter(|line| loses(line)).collect();
    if all > 0 {
        let places = plural(all, "comparison", "comparisons");
        sentences.push(match slower.iter().min_by(|a, b| times(a).total_cmp(&times(b))) {
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
        });
    }
    sentences.extend(view.groups.iter().rev().find_map(latency_loss));
    sentences.extend(view.main().and_then(memory_loss));
    sentences
}

fn loses(line: &Line) -> bool {
    line.versus.as_ref().is_some_and(|versus| versus.clear && versus.times < 1.0)
}

fn times(line: &Line) -> f64 {
    line.versus.as_ref().map_or(f64::INFINITY, |versus| versus.times)
}

/// In which setting a rival of the same sort has the shorter p99.9.
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
                "In latency it loses at {} ids/s on {}: p99.9 of {} is {}, that of {} {}.",
                super::numbers::round(group.setting.rate.unwrap_or(0.0)),
                words::threads(group.setting.threads),
                ours.name,
                time(our.median),
                rival.name,
                time(its.median),
            )
        })
    })
}

/// Where a rival of the same sort takes less memory than the leanest of ours.
fn memory_loss(main: &Group) -> Option<String> {
    let takes = |line: &Line| Some(line.bytes?.median + line.beside.map_or(0.0, |beside| beside.median));
    let least = |sort: Sort, ours: bool| {
        let lines = main.of_sort(sort).filter(|line| line.ours == ours).filter_map(|line| Some((line, takes(line)?)));
        lines.min_by(|a, b| a.1.total_cmp(&b.1))
    };
    let losses: Vec<String> = [Sort::Window, Sort::Filter, Sort::Durable, Sort::Server]
        .into_iter()
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
