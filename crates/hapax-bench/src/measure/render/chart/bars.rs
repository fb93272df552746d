//! Horizontal bars.

use super::{Anchor, Bar, Bars, LINE, Scale, Width, line, name, text, width_of, width_of_name};
use crate::measure::render::chart::Axis;
use crate::measure::render::xml::Page;

const BAR: f64 = 16.0;
const GAP: f64 = 8.0;

struct Layout {
    left: f64,
    right: f64,
    /// The distance from one bar to the next.
    step: f64,
    top: f64,
}

/// Returns the drawing and its height.
pub fn draw(bars: &Bars, width: Width) -> (String, f64) {
    let mut page = Page::default();
    let layout = layout(bars, width);
    let bottom = layout.top + bars.bars.len() as f64 * layout.step;
    let mut scale = scale(bars, &layout);
    scale.thin(56.0);
    for (at, label) in &scale.ticks {
        let x = scale.at(*at);
        line(&mut page, "grid", (x, layout.top - 4.0), (x, bottom));
        text(&mut page, x, bottom + 16.0, Anchor::Middle, "quiet", label);
    }
    for (i, bar) in bars.bars.iter().enumerate() {
        draw_bar(&mut page, bars, bar, layout.top + i as f64 * layout.step, &scale, &layout, width);
    }
    line(&mut page, "axis", (layout.left, layout.top - 4.0), (layout.left, bottom));
    if let Some((label, at)) = &bars.reference {
        let x = scale.at(*at);
        line(&mut page, "reference", (x, layout.top - 4.0), (x, bottom));
        let anchor = if x < layout.left + width_of(label) { Anchor::Start } else { Anchor::End };
        text(&mut page, x, layout.top - 9.0, anchor, "quiet", label);
    }
    text(&mut page, layout.left, bottom + 16.0 + LINE, Anchor::Start, "quiet", &bars.label);
    (page.into_string(), bottom + 22.0 + LINE)
}

fn layout(bars: &Bars, width: Width) -> Layout {
    let names = bars.bars.iter().map(|bar| width_of_name(&bar.name, bar.ours));
    let values = bars.bars.iter().map(|bar| width_of(&value(bars, bar)));
    let room_for_values = values.fold(40.0, f64::max) + 14.0;
    let top = if bars.reference.is_some() { 24.0 } else { 6.0 };
    let (left, step) = match width {
        Width::Wide => (names.fold(60.0, f64::max) + 10.0, BAR + GAP),
        Width::Narrow => (4.0, BAR + GAP + LINE),
    };
    Layout { left, right: width.pixels() - room_for_values, step, top }
}

fn scale(bars: &Bars, layout: &Layout) -> Scale {
    let axis = Axis { label: String::new(), logarithmic: false, ticks: Vec::new(), number: bars.number };
    let ends = bars.bars.iter().map(|bar| (bar.value + bar.beside).max(bar.span.map_or(0.0, |(_, high)| high)));
    Scale::new(&axis, ends.chain(bars.reference.iter().map(|(_, at)| *at)), (layout.left, layout.right))
}

fn value(bars: &Bars, bar: &Bar) -> String {
    match bar.beside > 0.0 {
        true => format!("{} + {}", (bars.number)(bar.value), (bars.number)(bar.beside)),
        false => (bars.number)(bar.value),
    }
}

fn draw_bar(page: &mut Page, bars: &Bars, bar: &Bar, top: f64, scale: &Scale, layout: &Layout, width: Width) {
    let strong = if bar.ours { "strong" } else { "" };
    let y = match width {
        Width::Wide => {
            text(page, layout.left - 8.0, top + 12.5, Anchor::End, strong, &name(&bar.name));
            top
        }
        Width::Narrow => {
            text(page, 0.0, top + 11.0, Anchor::Start, strong, &name(&bar.name));
            top + LINE - 2.0
        }
    };
    let colour = if bar.ours { "c0" } else { "c6" };
    let (from, to) = (scale.at(0.0), scale.at(bar.value));
    page.add(format_args!(
        r#"<rect class="bar {colour}" x="{from:.1}" y="{y:.1}" width="{:.1}" height="{BAR}"/>"#,
        (to - from).max(1.0)
    ));
    let mut end = to;
    if bar.beside > 0.0 {
        end = scale.at(bar.value + bar.beside);
        page.add(format_args!(
            r#"<rect class="beside {colour}" x="{to:.1}" y="{:.1}" width="{:.1}" height="{:.1}"/>"#,
            y + 0.6,
            (end - to).max(1.0),
            BAR - 1.2
        ));
    }
    if let Some((low, high)) = bar.span {
        let (low, high, middle) = (scale.at(low), scale.at(high), y + BAR / 2.0);
        line(page, "whisker", (low, middle), (high, middle));
        line(page, "whisker", (low, middle - 3.5), (low, middle + 3.5));
        line(page, "whisker", (high, middle - 3.5), (high, middle + 3.5));
        end = end.max(high);
    }
    text(page, end + 7.0, y + 12.5, Anchor::Start, strong, &value(bars, bar));
}
