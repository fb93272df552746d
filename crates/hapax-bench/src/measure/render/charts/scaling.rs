//! Throughput by threads, and by live ids.

use super::super::chart::{Axis, Body, Chart, Curves, Figures, Point, Series};
use super::super::numbers::{large, round};
use super::super::view::{Line, View};
use super::super::words;
use super::Styles;
use crate::measure::{Setting, Sort};

/// The quantity that varies along a chart.
struct Along {
    label: &'static str,
    of: fn(&Setting) -> f64,
    /// Makes the setting the same for all rows that belong to one chart.
    without: fn(&mut Setting),
    /// Describes the setting without the quantity that varies.
    words: fn(&Setting) -> String,
    /// Describes the end of the axis, to which the title refers.
    at: fn(f64) -> String,
}

pub fn by_threads(view: &View, styles: &Styles) -> Vec<Chart> {
    let along = Along {
        label: "threads",
        of: |setting| setting.threads as f64,
        without: |setting| setting.threads = 0,
        words: words::setting_without_threads,
        at: |threads| words::threads(threads as usize),
    };
    charts(view, styles, &along)
}

pub fn by_live(view: &View, styles: &Styles) -> Vec<Chart> {
    let along = Along {
        label: "live ids",
        of: |setting| setting.live as f64,
        without: |setting| setting.live = 0,
        words: words::setting_without_live,
        at: |live| format!("{} live ids", round(live)),
    };
    charts(view, styles, &along)
}

/// A group of strategies, in memory or elsewhere: on one axis neither would be readable.
#[derive(Clone, Copy, PartialEq)]
enum Family {
    Windows,
    Filters,
    Durable,
}

fn family(sort: Sort) -> Option<Family> {
    match sort {
        Sort::Window => Some(Family::Windows),
        Sort::Filter => Some(Family::Filters),
        Sort::Durable | Sort::Server => Some(Family::Durable),
        Sort::Roofline => None,
    }
}

fn family_words(family: Family) -> &'static str {
    match family {
        Family::Windows => "Windows",
        Family::Filters => "Filters",
        Family::Durable => "Durable, and on servers",
    }
}

fn charts(view: &View, styles: &Styles, along: &Along) -> Vec<Chart> {
    let mut contexts: Vec<(Setting, Family, Vec<&Line>)> = Vec::new();
    for line in view.lines().filter(|line| line.speed.is_some()) {
        let mut setting = Setting { batch: 1, ..line.row.setting.clone() };
        let (true, true, Some(family)) =
            (setting.rate.is_none(), setting.budget_bytes.is_none(), family(line.row.sort))
        else {
            continue;
        };
        (along.without)(&mut setting);
        match contexts.iter_mut().find(|(other, its, _)| *other == setting && *its == family) {
            Some((_, _, lines)) => lines.push(line),
            None => contexts.push((setting, family, vec![line])),
        }
    }
    // Windows come first; of each family the context with most figures, then the largest.
    contexts.sort_by_key(|(setting, family, lines)| {
        (*family as u8, std::cmp::Reverse((lines.len(), setting.live, setting.threads)))
    });
    let mut charts: Vec<(usize, Chart)> = Vec::new();
    let mut ranks = [0; 3];
    for (setting, family, lines) in contexts {
        let rank = &mut ranks[family as usize];
        if let Some(chart) = chart(&setting, family, &lines, styles, along) {
            charts.push((*rank, chart));
            *rank += 1;
        }
    }
    // The best of each family comes before the second best of any.
    charts.sort_by_key(|(rank, _)| *rank);
    charts.into_iter().map(|(_, chart)| chart).collect()
}

fn chart(setting: &Setting, family: Family, lines: &[&Line], styles: &Styles, along: &Along) -> Option<Chart> {
    let mut places: Vec<f64> = lines.iter().map(|line| (along.of)(&line.row.setting)).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let (last, true) = (*places.last()?, places.len() > 1) else { return None };
    let series = series(lines, styles, along);
    let end = |series: &Series| series.points.last().filter(|point| point.x == last).map_or(0.0, |point| point.y);
    let best = series.iter().max_by(|a, b| end(a).total_cmp(&end(b)))?;
    let title = format!(
        "{}: {} leads at {} with {} ids a second",
        family_words(family),
        best.name,
        (along.at)(last),
        large(end(best))
    );
    let figures = figures(&series, &places);
    Some(Chart {
        id: String::new(),
        title,
        context: format!("{}.", (along.words)(setting)),
        says: "Both axes are logarithmic. Marks are medians, with lines from the slowest to the fastest run; hollow marks are ids one \
               by one, filled marks batches."
            .into(),
        body: Body::Curves(Curves {
            x: Axis {
                label: along.label.into(),
                logarithmic: true,
                ticks: places.iter().map(|place| (*place, round(*place))).collect(),
                number: round,
            },
            y: Axis { label: "ids a second".into(), logarithmic: true, ticks: Vec::new(), number: round },
            series,
        }),
        figures,
    })
}

/// Returns one series for each strategy and batch size.
fn series(lines: &[&Line], styles: &Styles, along: &Along) -> Vec<Series> {
    let mut series: Vec<Series> = Vec::new();
    for line in lines {
        let Some(speed) = line.speed else { continue };
        let span = (speed.runs > 1).then_some((speed.lowest, speed.highest));
        let point = Point { x: (along.of)(&line.row.setting), y: speed.median, span, bound: false };
        let style = styles.of(line);
        match series.iter_mut().find(|series| series.name == line.label && series.style == style) {
            Some(series) => series.points.push(point),
            None => series.push(Series { name: line.label.clone(), style, points: vec![point] }),
        }
    }
    series.iter_mut().for_each(|series| series.points.sort_by(|a, b| a.x.total_cmp(&b.x)));
    series
}

fn figures(series: &[Series], places: &[f64]) -> Figures {
    let head = std::iter::once("strategy".into()).chain(places.iter().map(|place| round(*place))).collect();
    let cell = |series: &Series, place: f64| {
        let point = series.points.iter().find(|point| point.x == place);
        point.map_or_else(String::new, |point| match point.span {
            Some((low, high)) => format!("{} ({}–{})", large(point.y), large(low), large(high)),
            None => large(point.y),
        })
    };
    let row = |series: &Series| {
        std::iter::once(series.name.clone()).chain(places.iter().map(|place| cell(series, *place))).collect()
    };
    Figures { head, rows: series.iter().map(row).collect() }
}
