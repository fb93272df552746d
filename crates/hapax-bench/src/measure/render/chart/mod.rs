//! Charts: their contents, apart from how they are drawn.

mod bars;
mod curves;
mod marks;
mod scale;

pub use marks::Style;

use super::xml::{Page, Text};
use scale::Scale;

/// One chart, with its contents in words and in figures.
pub struct Chart {
    /// The name, unique within a page; also the name of its file.
    pub id: String,
    /// The title, which says what to see.
    pub title: String,
    /// The conditions.
    pub context: String,
    /// The explanation of the marks.
    pub says: String,
    pub body: Body,
    pub figures: Figures,
}

pub enum Body {
    Curves(Curves),
    Bars(Bars),
}

/// The contents as text.
#[derive(Default)]
pub struct Figures {
    pub head: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

pub struct Curves {
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
}

pub struct Axis {
    pub label: String,
    pub logarithmic: bool,
    /// The marks and their places; if empty, they are at round numbers.
    pub ticks: Vec<(f64, String)>,
    pub number: fn(f64) -> String,
}

pub struct Series {
    pub name: String,
    pub style: Style,
    pub points: Vec<Point>,
}

pub struct Point {
    pub x: f64,
    pub y: f64,
    /// The range within which the value may be.
    pub span: Option<(f64, f64)>,
    /// True if `y` is not the observed value, but an upper bound of it.
    pub bound: bool,
}

pub struct Bars {
    pub label: String,
    pub bars: Vec<Bar>,
    pub number: fn(f64) -> String,
    /// A line across all bars.
    pub reference: Option<(String, f64)>,
}

pub struct Bar {
    pub name: String,
    pub ours: bool,
    pub value: f64,
    /// The range from the worst to the best run.
    pub span: Option<(f64, f64)>,
    /// The part that is added on top, which is outside the process.
    pub beside: f64,
}

/// The width for which a chart is drawn, as text cannot shrink with it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// Names next to the curves, before the bars.
    Wide,
    /// Names below.
    Narrow,
}

impl Width {
    pub fn pixels(self) -> f64 {
        match self {
            Width::Wide => 760.0,
            Width::Narrow => 344.0,
        }
    }

    fn class(self) -> &'static str {
        match self {
            Width::Wide => "wide",
            Width::Narrow => "narrow",
        }
    }
}

/// The colours and strokes, for light and dark.
pub const CSS: &str = include_str!("chart.css");

/// The height of a line of text.
const LINE: f64 = 18.0;

/// The approximate width of a character. Some are wider, so names get some more.
const CHARACTER: f64 = 7.2;

/// The length beyond which names are cut in charts; tables have them whole.
const NAME_CHARACTERS_MAX: usize = 34;

/// The length at which titles, which are bold, are broken.
const TITLE_CHARACTERS_MAX: usize = 82;

impl Chart {
    /// Returns the chart for a page that has [`CSS`] and the chart's title.
    pub fn inline(&self, width: Width) -> String {
        let (body, height) = self.body(width);
        let id = format!("{}-{}", self.id, width.class());
        format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" class="chart {}" viewBox="0 0 {} {height:.0}" role="img" aria-labelledby="{id}-title {id}-desc"><title id="{id}-title">{}</title><desc id="{id}-desc">{}</desc>{body}</svg>"#,
            width.class(),
            width.pixels(),
            Text(&self.title),
            Text(&self.says),
        )
    }

    /// Returns the chart for a file of its own.
    pub fn file(&self) -> String {
        let (body, height) = self.body(Width::Wide);
        let width = Width::Wide.pixels();
        let (title, rest) = broken(&self.title, TITLE_CHARACTERS_MAX);
        let context_y = if rest.is_empty() { 37.0 } else { 37.0 + LINE };
        let head = context_y + 15.0;
        let mut second = Page::default();
        if !rest.is_empty() {
            text(&mut second, 0.0, 17.0 + LINE, Anchor::Start, "title", &cut(rest, TITLE_CHARACTERS_MAX));
        }
        let second = second.into_string();
        format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {width} {:.0}" width="{width}" height="{:.0}" role="img" aria-labelledby="title desc">
<title id="title">{}</title><desc id="desc">{}</desc>
<style>{CSS}</style>
<text x="0" y="17" class="title">{}</text>{second}
<text x="0" y="{context_y:.0}" class="quiet">{}</text>
<g transform="translate(0 {head:.0})">{body}</g>
</svg>
"#,
            height + head,
            height + head,
            Text(&self.title),
            Text(&format!("{} {}", self.context, self.says)),
            Text(title),
            Text(&cut(&self.context, 104)),
        )
    }

    fn body(&self, width: Width) -> (String, f64) {
        match &self.body {
            Body::Curves(curves) => curves::draw(curves, width),
            Body::Bars(bars) => bars::draw(bars, width),
        }
    }
}

/// Returns the whole words that fit into a line, and the rest.
fn broken(text: &str, characters: usize) -> (&str, &str) {
    let Some((end, _)) = text.char_indices().nth(characters) else { return (text, "") };
    let space = text[..end].rfind(' ').unwrap_or(end);
    (&text[..space], text[space..].trim_start())
}

fn cut(text: &str, characters: usize) -> String {
    match text.chars().count() > characters {
        true => text.chars().take(characters - 1).chain(['…']).collect(),
        false => text.into(),
    }
}

fn name(text: &str) -> String {
    cut(text, NAME_CHARACTERS_MAX)
}

/// Returns the width of a name, which is bold if it is ours.
fn width_of_name(text: &str, ours: bool) -> f64 {
    width_of(&name(text)) * if ours { 1.17 } else { 1.0 }
}

fn width_of(text: &str) -> f64 {
    text.chars().count() as f64 * CHARACTER
}

/// The alignment of text.
#[derive(Clone, Copy)]
enum Anchor {
    Start,
    Middle,
    End,
}

fn text(page: &mut Page, x: f64, y: f64, anchor: Anchor, class: &str, text: &str) {
    let anchor = match anchor {
        Anchor::Start => "",
        Anchor::Middle => r#" text-anchor="middle""#,
        Anchor::End => r#" text-anchor="end""#,
    };
    let class = if class.is_empty() { String::new() } else { format!(r#" class="{class}""#) };
    page.add(format_args!(r#"<text x="{x:.1}" y="{y:.1}"{anchor}{class}>{}</text>"#, Text(text)));
}

fn line(page: &mut Page, class: &str, from: (f64, f64), to: (f64, f64)) {
    page.add(format_args!(
        r#"<line class="{class}" x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}"/>"#,
        from.0, from.1, to.0, to.1
    ));
}

/// Draws a vertical bar from one y to another, with ends.
fn whisker(page: &mut Page, class: &str, x: f64, from: f64, to: f64) {
    line(page, class, (x, from), (x, to));
    line(page, class, (x - 3.0, from), (x + 3.0, from));
    line(page, class, (x - 3.0, to), (x + 3.0, to));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_broken_between_words() {
        assert_eq!(broken("all of it", 9), ("all of it", ""));
        assert_eq!(broken("all of it", 8), ("all of", "it"));
        assert_eq!(broken("überlänge", 4), ("über", "länge"));
        assert_eq!((cut("überlänge", 5), cut("all", 3)), ("über…".into(), "all".into()));
    }
}
