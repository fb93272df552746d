//! A picture of one comparison: what a check costs, as bars.

use crate::case::Mode;
use crate::results::{Comparison, Results};
use std::fmt::Write;

const WIDTH: usize = 760;
const BARS_AT: usize = 270;
const BAR_WIDTH_MAX: f64 = 320.0;
const ROW_HEIGHT: usize = 26;
const TOP: usize = 56;

/// Draws the windows of a comparison, the fastest first, as SVG. Legible on light and on dark, without colours too.
pub fn draw(comparison: &Comparison) -> String {
    let mut bars: Vec<(String, f64, bool)> = comparison.rows.iter().filter_map(bar).collect();
    bars.sort_by(|a, b| a.1.total_cmp(&b.1));
    // What is very slow is cut off, or all others would be dots.
    let longest = bars.get(bars.len() / 2).map_or(1.0, |middle| 2.5 * middle.1);
    let height = TOP + bars.len() * ROW_HEIGHT + 16;
    let (live, kind) = (comparison.setting.live / 1_000_000, comparison.setting.kind);
    let mut svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="system-ui, sans-serif" font-size="14">
<title>Nanoseconds a check, {live} million live ids</title>
<style>
text {{ fill: #1f2328 }} .bar {{ fill: #9aa4b2 }} .ours {{ fill: #0a7d5a }} .floor {{ fill: none; stroke: #9aa4b2; stroke-dasharray: 4 3 }}
@media (prefers-color-scheme: dark) {{ text {{ fill: #e6edf3 }} .bar {{ fill: #6e7681 }} .ours {{ fill: #3fb68b }} }}
</style>
<text x="0" y="20" font-weight="600">Nanoseconds a check: {live} million live ids ({kind}), one thread, 10 % duplicates</text>
<text x="0" y="40" font-size="12">Shorter is better. Each bar is the median of {} runs on the same stream, with the answers checked.</text>
"#,
        comparison.rows.first().map_or(0, |row| row.runs.len()),
    );
    for (i, (name, nanos, ours)) in bars.iter().enumerate() {
        let y = TOP + i * ROW_HEIGHT;
        let width = BAR_WIDTH_MAX * (nanos / longest).min(1.0);
        let class = match name.starts_with("roofline") {
            true => "floor",
            false if *ours => "ours",
            false => "bar",
        };
        let weight = if *ours { " font-weight=\"600\"" } else { "" };
        let cut = if *nanos > longest { " (bar cut off)" } else { "" };
        let (text_y, label_at) = (y + 16, BARS_AT as f64 + width + 8.0);
        writeln!(
            svg,
            r#"<text x="0" y="{text_y}"{weight}>{name}</text><rect class="{class}" x="{BARS_AT}" y="{}" width="{width:.1}" height="18"/><text x="{label_at:.1}" y="{text_y}"{weight}>{nanos:.0}{cut}</text>"#,
            y + 2,
        )
        .expect("a string takes everything");
    }
    svg.push_str("</svg>\n");
    svg
}

fn bar(row: &Results) -> Option<(String, f64, bool)> {
    let name = row.strategy.name;
    if !row.strategy.expires {
        return None;
    }
    let label = match row.mode {
        _ if row.is_roofline() => name.replace(" lines in flight", " in flight"),
        Mode::Batched => format!("{name}, batched"),
        Mode::Single => name.to_string(),
    };
    Some((label.replace('<', "&lt;"), row.nanos_per_id()?, row.is_ours()))
}
