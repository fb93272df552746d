//! Figures as places on a logarithmic axis: the only drawing that a report has.

use super::escaped::Text;
use super::rivals::groups;
use super::words::{self, number, time};
use crate::measure::{Report, Row};
use std::fmt::Write as _;

const WIDTH: f64 = 760.0;
const ROW: f64 = 24.0;
/// The height of the title, the setting and the legend.
const HEAD: f64 = 64.0;
/// The widths of a letter, and of the figures next to the marks.
const LETTER: f64 = 7.0;
const FIGURES: f64 = 190.0;

/// A picture: strategies, one a row, each with up to three marks.
pub struct Picture {
    /// A name for a file.
    pub name: &'static str,
    /// The quantity that it shows.
    title: &'static str,
    /// The setting in which that was measured.
    setting: String,
    /// Words for the hollow mark, the filled one, and the bar.
    legend: [&'static str; 3],
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
        Picture {
            name: "throughput",
            title: "Ids a second",
            setting: words::setting(&main.setting),
            legend: ["one at a time", "in batches", "read ahead"],
            rows,
            print: |ids| number(ids) + "/s",
        }
    });
    let latency = paced.map(|paced| {
        let row = |row: &&Row| {
            let of = |of| row.latency(of).map(|spread| spread.median);
            (words::name(row), row.is_ours(), [of(|it| it.p50), of(|it| it.p99_9), of(|it| it.longest)])
        };
        Picture {
            name: "latency",
            title: "Latency of an id, from when it is due",
            setting: words::setting(&paced.setting),
            legend: ["half of the ids", "99.9 %", "the longest"],
            rows: paced.rows.iter().map(row).collect(),
            print: time,
        }
    });
    let has_marks = |picture: &Picture| picture.rows.iter().any(|row| logs(&row.2).iter().any(Option::is_some));
    throughput.into_iter().chain(latency).filter(has_marks).collect()
}

/// Returns logarithms; what is not above 0 has no place.
fn logs(values: &[Option<f64>; 3]) -> [Option<f64>; 3] {
    values.map(|value| value.filter(|value| value.is_finite() && *value > 0.0).map(f64::log10))
}

impl Picture {
    /// Draws the title, the setting, and a legend of the marks that there are.
    fn head(&self) -> String {
        let [title, setting] = [Text(self.title), Text(&self.setting)];
        let mut head = format!(r#"<text class="name title" y="17">{title}</text><text y="35">{setting}</text>"#);
        let mut x = 6.0;
        for (mark, words) in self.legend.iter().enumerate() {
            if self.rows.iter().all(|row| row.2[mark].is_none()) {
                continue;
            }
            head += &match mark {
                2 => format!(r#"<line x1="{x}" x2="{x}" y1="46" y2="58"/>"#),
                _ => format!(r#"<circle class="{}" cx="{x}" cy="52" r="4.5"/>"#, ["hollow", "filled"][mark]),
            };
            head += &format!(r#"<text x="{}" y="56">{words}</text>"#, x + 10.0);
            x += words.len() as f64 * LETTER + 24.0;
        }
        format!(r#"<g class="head other">{head}</g>"#)
    }

    /// Draws it as an SVG that needs no other file, and says in words what it shows.
    pub fn svg(&self) -> String {
        let all = || self.rows.iter().flat_map(|row| logs(&row.2)).flatten();
        let low = all().fold(f64::MAX, f64::min).floor();
        let high = all().fold(f64::MIN, f64::max).ceil().max(low + 1.0);
        let longest = self.rows.iter().map(|row| row.0.chars().count()).max().unwrap_or(0);
        let left = (longest as f64 * LETTER + 14.0).min(WIDTH / 2.0);
        let width = WIDTH - left - FIGURES;
        let x = |log: f64| left + width * (log - low) / (high - low);
        let height = HEAD + (self.rows.len() + 1) as f64 * ROW + 8.0;
        let mut svg = format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" class="marks" role="img" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"><title>{}: {}</title><style>{}</style>{}"#,
            Text(self.title),
            Text(&self.setting),
            include_str!("marks.css"),
            self.head()
        );
        let mut add = |markup: std::fmt::Arguments| _ = svg.write_fmt(markup); // a string takes everything
        let step = ((high - low) / 5.0).ceil();
        for tick in 0..=((high - low) / step) as i32 {
            let log = low + f64::from(tick) * step;
            let (at, label) = (x(log), (self.print)(10_f64.powf(log)));
            add(format_args!(r#"<line class="grid" x1="{at:.1}" x2="{at:.1}" y1="{}" y2="{height}"/>"#, HEAD + ROW));
            add(format_args!(r#"<text x="{at:.1}" y="{}" text-anchor="middle">{}</text>"#, HEAD + 17.0, Text(&label)));
        }
        for (i, (name, ours, values)) in self.rows.iter().enumerate() {
            let (y, places) = (HEAD + (i as f64 + 1.5) * ROW, logs(values).map(|log| log.map(x)));
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
