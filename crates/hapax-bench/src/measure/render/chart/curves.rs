//! Lines and marks over two axes.

use super::{Anchor, Curves, LINE, Scale, Series, Width, line, name, text, whisker, width_of_name};
use crate::measure::render::xml::Page;

const TOP: f64 = 30.0;
const HEIGHT: f64 = 300.0;
const BELOW: f64 = 42.0;

/// The plot's borders.
struct Frame {
    left: f64,
    right: f64,
    bottom: f64,
}

/// Returns the drawing and its height.
pub fn draw(curves: &Curves, width: Width) -> (String, f64) {
    let mut page = Page::default();
    let frame = frame(curves, width);
    let points = || curves.series.iter().flat_map(|series| &series.points);
    let mut x = Scale::new(&curves.x, points().map(|point| point.x), (frame.left, frame.right));
    let spans = points().flat_map(|point| {
        let (low, high) = point.span.unwrap_or((point.y, point.y));
        [point.y, low, high]
    });
    let mut y = Scale::new(&curves.y, spans, (frame.bottom, TOP));
    x.thin(if width == Width::Wide { 44.0 } else { 40.0 });
    y.thin(20.0);
    axes(&mut page, curves, &frame, &x, &y);
    for series in &curves.series {
        draw_series(&mut page, series, &x, &y);
    }
    let below = frame.bottom + BELOW;
    match width {
        Width::Wide => {
            labels_beside(&mut page, curves, &frame, &x, &y);
            (page.into_string(), below)
        }
        Width::Narrow => {
            legend_below(&mut page, curves, below + 10.0);
            (page.into_string(), below + curves.series.len() as f64 * LINE + 14.0)
        }
    }
}

fn frame(curves: &Curves, width: Width) -> Frame {
    let height = match width {
        Width::Wide => HEIGHT.max(curves.series.len() as f64 * LINE),
        Width::Narrow => 240.0,
    };
    let names = curves.series.iter().map(|series| width_of_name(&series.name, series.style.is_ours()));
    let right = match width {
        Width::Wide => width.pixels() - names.fold(0.0, f64::max).max(60.0) - 34.0,
        Width::Narrow => width.pixels() - 22.0,
    };
    Frame { left: 58.0, right, bottom: TOP + height }
}

fn axes(page: &mut Page, curves: &Curves, frame: &Frame, x: &Scale, y: &Scale) {
    for (at, label) in &y.ticks {
        let y = y.at(*at);
        line(page, "grid", (frame.left, y), (frame.right, y));
        text(page, frame.left - 7.0, y + 4.5, Anchor::End, "quiet", label);
    }
    for (at, label) in &x.ticks {
        let x = x.at(*at);
        line(page, "axis", (x, frame.bottom), (x, frame.bottom + 4.0));
        text(page, x, frame.bottom + 18.0, Anchor::Middle, "quiet", label);
    }
    line(page, "axis", (frame.left, frame.bottom), (frame.right, frame.bottom));
    text(page, 0.0, 13.0, Anchor::Start, "quiet", &curves.y.label);
    text(page, (frame.left + frame.right) / 2.0, frame.bottom + 36.0, Anchor::Middle, "quiet", &curves.x.label);
}

fn draw_series(page: &mut Page, series: &Series, x: &Scale, y: &Scale) {
    page.add(format_args!(r#"<g class="{}">"#, series.style.class()));
    let places: Vec<(f64, f64)> = series.points.iter().map(|point| (x.at(point.x), y.at(point.y))).collect();
    if places.len() > 1 {
        let points: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        page.add(format_args!(r#"<polyline points="{}"/>"#, points.join(" ")));
    }
    for (point, &(px, py)) in series.points.iter().zip(&places) {
        if let (Some((low, high)), false) = (point.span, point.bound) {
            whisker(page, "span", px, y.at(low), y.at(high));
        }
        if point.bound {
            // An arrow down: the value is somewhere below.
            page.add(format_args!(r#"<path class="span" d="M{px:.1} {py:.1}v20m-4-6l4 6l4-6"/>"#));
        }
        series.style.mark(page, px, py);
    }
    page.add(format_args!("</g>"));
}

/// Writes each name at the height where its curve ends, or as near to that as there is room.
fn labels_beside(page: &mut Page, curves: &Curves, frame: &Frame, x: &Scale, y: &Scale) {
    let mut ends: Vec<(&Series, f64, f64)> = curves
        .series
        .iter()
        .filter_map(|series| series.points.last().map(|end| (series, x.at(end.x), y.at(end.y))))
        .collect();
    ends.sort_by(|a, b| a.2.total_cmp(&b.2));
    let wanted: Vec<f64> = ends.iter().map(|end| end.2).collect();
    let places = spread(&wanted, LINE - 1.0, TOP, frame.bottom);
    for ((series, end_x, end_y), place) in ends.into_iter().zip(places) {
        line(page, "lead", (end_x + 7.0, end_y), (frame.right + 12.0, place));
        page.add(format_args!(r#"<g class="{}">"#, series.style.class()));
        series.style.mark(page, frame.right + 20.0, place);
        page.add(format_args!("</g>"));
        let strong = if series.style.is_ours() { "strong" } else { "" };
        text(page, frame.right + 29.0, place + 4.5, Anchor::Start, strong, &name(&series.name));
    }
}

fn legend_below(page: &mut Page, curves: &Curves, top: f64) {
    for (i, series) in curves.series.iter().enumerate() {
        let y = top + i as f64 * LINE + 8.0;
        page.add(format_args!(r#"<g class="{}"><polyline points="2,{y:.1} 38,{y:.1}"/>"#, series.style.class()));
        series.style.mark(page, 20.0, y);
        page.add(format_args!("</g>"));
        let strong = if series.style.is_ours() { "strong" } else { "" };
        text(page, 48.0, y + 4.5, Anchor::Start, strong, &name(&series.name));
    }
}

/// Returns places in the same order, at least `apart` from each other, from `top` to `bottom` if
/// they fit, and near to where they should be.
fn spread(wanted: &[f64], apart: f64, top: f64, bottom: f64) -> Vec<f64> {
    let mut places = Vec::with_capacity(wanted.len());
    let mut free = top;
    for &wanted in wanted {
        let place = wanted.max(free);
        places.push(place);
        free = place + apart;
    }
    // Places that were pushed below the bottom are moved back up.
    let mut limit = bottom;
    for place in places.iter_mut().rev() {
        *place = place.min(limit);
        limit = *place - apart;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_their_order_and_their_distance() {
        let places = spread(&[10.0, 11.0, 12.0, 95.0, 99.0], 10.0, 0.0, 100.0);
        assert_eq!(places, [10.0, 20.0, 30.0, 90.0, 100.0]);
        let crowded = spread(&[50.0; 11], 10.0, 0.0, 100.0);
        assert_eq!(crowded, [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0]);
    }
}
