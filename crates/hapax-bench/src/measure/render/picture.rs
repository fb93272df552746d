//! Figures as places on a logarithmic axis: the only drawing that a report has.

use super::escaped::Text;
use super::rivals::groups;
use super::words::{self, number, time};
use crate::measure::{Report, Row};
use std::fmt::Write as _;

const WIDTH: f64 = 760.0;
const ROW: f64 = 24.0;
/// The widths of a letter, and of the figures next to the marks.
const LETTER: f64 = 7.0;
const FIGURES: f64 = 190.0;

/// A picture: strategies, one a row, each with up to three marks.
pub struct Picture {
    /// A name for a file.
    pub name: &'static str,
    /// The quantity that it shows.
    pub title: String,
    /// Names, whether they are ours, and values: of the hollow mark, the filled one, and the end.
    rows: Vec<(String, bool, [Option<f64>; 3])>,
    print: fn(f64) -> String,
}

/// Returns the pictures of a report, as far as it has their figures: what strategies do in a
/// second, and how long ids take that are due at a rate.
pub fn pictures(report: &Report) -> Vec<Picture> {
    let groups = groups(report);
    let paced = groups.iter().filter(|group| group.setting.rate.is_some()).max_by_key(|group| group.rows.len());
    let main = groups.first().filter(|main| main.setting.rate.is_none());
    let throughput = main.map(|main| {
        let mut rows: Vec<(String, bool, [Option<f64>; 3])> = Vec::new();
        for row in &main.rows {
            let speed = row.nanos_per_id().map(|nanos| 1e9 / nanos.median);
            let i = rows.iter().position(|(name, ..)| *name == row.strategy).unwrap_or_else(|| {
                rows.push((row.strategy.clone(), row.is_ours(), [None; 3]));
                rows.len() - 1
            });
            let mark = if row.setting.ahead { 2 } else { usize::from(row.setting.batch > 1) };
            rows[i].2[mark] = speed;
        }
        let what = "Ids a second, one at a time (hollow), in batches (filled), read ahead (bar)";
        let title = format!("{what}: {}", words::setting(&main.setting));
        Picture { name: "throughput", title, rows, print: number }
    });
    let latency = paced.map(|paced| {
        let row = |row: &&Row| {
            let of = |of| row.latency(of).map(|spread| spread.median);
            (words::name(row), row.is_ours(), [of(|it| it.p50), of(|it| it.p99_9), of(|it| it.longest)])
        };
        let what = "From half of the ids (hollow) over 99.9 % (filled) to the longest";
        let title = format!("{what}: {}", words::setting(&paced.setting));
        Picture { name: "latency", title, rows: paced.rows.iter().map(row).collect(), print: time }
    });
    let has_marks = |picture: &Picture| picture.rows.iter().any(|row| logs(&row.2).iter().any(Option::is_some));
    throughput.into_iter().chain(latency).filter(has_marks).collect()
}

/// Returns logarithms; what is not above 0 has no place.
fn logs(values: &[Option<f64>; 3]) -> [Option<f64>; 3] {
    values.map(|value| value.filter(|value| value.is_finite() && *value > 0.0).map(f64::log10))
}

impl Picture {
    /// Draws it as an SVG that needs no other file, and says in words what it shows.
    pub fn svg(&self) -> String {
        let all = || self.rows.iter().flat_map(|row| logs(&row.2)).flatten();
        let low = all().fold(f64::MAX, f64::min).floor();
        let high = all().fold(f64::MIN, f64::max).ceil().max(low + 1.0);
        let longest = self.rows.iter().map(|row| row.0.chars().count()).max().unwrap_or(0);
        let left = (longest as f64 * LETTER + 14.0).min(WIDTH / 2.0);
        let width = WIDTH - left - FIGURES;
        let x = |log: f64| left + width * (log - low) / (high - low);
        let height = (self.rows.len() + 1) as f64 * ROW + 8.0;
        let mut svg = format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" class="marks" role="img" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"><title>{}</title><style>{}</style>"#,
            Text(&self.title),
            include_str!("marks.css")
        );
        let mut add = |markup: std::fmt::Arguments| _ = svg.write_fmt(markup); // a string takes everything
        let step = ((high - low) / 5.0).ceil();
        for tick in 0..=((high - low) / step) as i32 {
            let log = low + f64::from(tick) * step;
            let (at, label) = (x(log), (self.print)(10_f64.powf(log)));
            add(format_args!(r#"<line class="grid" x1="{at:.1}" x2="{at:.1}" y1="{ROW}" y2="{height}"/>"#));
            add(format_args!(r#"<text x="{at:.1}" y="17" text-anchor="middle">{}</text>"#, Text(&label)));
        }
        for (i, (name, ours, values)) in self.rows.iter().enumerate() {
            let (y, places) = ((i as f64 + 1.5) * ROW, logs(values).map(|log| log.map(x)));
            let (text, end) = (y + 4.0, left + width + 14.0);
            add(format_args!(r#"<g class="{}">"#, if *ours { "ours" } else { "other" }));
            add(format_args!(r#"<text class="name" y="{text}">{}</text>"#, Text(name)));
            let [hollow, filled, last] = places;
            let [from, to] = [f64::min, f64::max].map(|of| places.into_iter().flatten().reduce(of));
            if let (Some(from), Some(to)) = (from, to) {
                add(format_args!(r#"<line x1="{from:.1}" x2="{to:.1}" y1="{y}" y2="{y}"/>"#));
            }
            if let Some(at) = last {
                add(format_args!(r#"<line x1="{at:.1}" x2="{at:.1}" y1="{}" y2="{}"/>"#, y - 6.0, y + 6.0));
            }
            for (class, at) in [("hollow", hollow), ("filled", filled)] {
                if let Some(at) = at {
                    add(format_args!(r#"<circle class="{class}" cx="{at:.1}" cy="{y}" r="4.5"/>"#));
                }
            }
            let said: Vec<String> = values.iter().flatten().map(|value| (self.print)(*value)).collect();
            add(format_args!(r#"<text x="{end:.1}" y="{text}">{}</text></g>"#, Text(&said.join(" · "))));
        }
        svg += "</svg>\n";
        svg
    }
}
