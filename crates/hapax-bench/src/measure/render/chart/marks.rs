//! The looks of strategies: shape, dash and colour, any one of which would do for most.

use super::Page;

/// The colours in `chart.css`; the first one is ours.
pub const COLOURS: usize = 7;
const SHAPES: usize = 8;
const DASHES: usize = 5;

/// The look of one strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    number: usize,
    ours: bool,
    /// True if ids are checked one by one rather than in batches.
    hollow: bool,
}

impl Style {
    /// Returns the style of the strategy with this number; ours have the first ones.
    pub fn new(number: usize, ours: bool, hollow: bool) -> Style {
        Style { number, ours, hollow }
    }

    pub fn class(&self) -> String {
        match self.ours {
            true => format!("ours c0 d{}", self.number % DASHES),
            false => format!("c{} d{}", 1 + self.number % (COLOURS - 1), self.number % DASHES),
        }
    }

    pub fn is_ours(&self) -> bool {
        self.ours
    }

    /// Draws its mark at a place. Must be within an element of its `class`.
    pub fn mark(&self, page: &mut Page, x: f64, y: f64) {
        let path = match self.number % SHAPES {
            0 => "m-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z",
            1 => "m-4-4h8v8h-8z",
            2 => "m0-5l5 8.5h-10z",
            3 => "m0-5.5l5 5.5l-5 5.5l-5-5.5z",
            4 => "m0 5l5-8.5h-10z",
            5 => "m-5 0h10m-5-5v10",
            6 => "m-4-4l8 8m0-8l-8 8",
            _ => "m-5 0l2.5-4.5h5l2.5 4.5l-2.5 4.5h-5z",
        };
        let class = if self.hollow { "hollow" } else { "solid" };
        page.add(format_args!(r#"<path class="{class}" d="M{x:.1} {y:.1}{path}"/>"#));
    }
}
