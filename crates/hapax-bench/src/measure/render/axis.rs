//! Values as places on a logarithmic axis: the only drawing that a report has.

use super::xml::{Page, Text};

/// An axis of whole decades.
pub struct Axis {
    /// The logarithms of both ends.
    ends: (f64, f64),
    /// Prints a value.
    pub number: fn(f64) -> String,
}

/// The values of one row: those that are there. What is not above 0 has no place.
#[derive(Clone, Copy, Default)]
pub struct Marks {
    pub hollow: Option<f64>,
    pub filled: Option<f64>,
    pub end: Option<f64>,
}

/// The most labels that have room next to each other.
const LABELS_MAX: f64 = 5.0;

impl Axis {
    /// Returns the axis on which all of these marks have a place, if there are any.
    pub fn over(marks: impl Iterator<Item = Marks>, number: fn(f64) -> String) -> Option<Axis> {
        let logs = marks.flat_map(|marks| marks.values()).flatten().map(f64::log10);
        let (low, high) = logs.fold((f64::MAX, f64::MIN), |(low, high), log| (low.min(log), high.max(log)));
        let ends = (low.floor(), high.ceil().max(low.floor() + 1.0));
        (low <= high).then_some(Axis { ends, number })
    }

    /// Returns the place of a value, in percent of the width.
    fn place(&self, value: f64) -> f64 {
        let (low, high) = self.ends;
        100.0 * (value.log10() - low) / (high - low)
    }

    /// Returns the values that have a line and a label: decades, as many as there is room for.
    fn ticks(&self) -> impl Iterator<Item = f64> {
        let (low, high) = self.ends;
        let step = ((high - low) / LABELS_MAX).ceil();
        (0..=((high - low) / step) as i32).map(move |i| 10_f64.powf(low + f64::from(i) * step))
    }

    /// Draws the labels of the axis, for a picture without height of its own.
    pub fn labels(&self) -> String {
        let mut page = Page::default();
        for tick in self.ticks() {
            let place = self.place(tick);
            let anchor = match place {
                0.0..5.0 => "start",
                5.0..95.0 => "middle",
                _ => "end",
            };
            let label = (self.number)(tick);
            page.add(format_args!(
                r#"<text class="quiet" x="{place:.1}%" y="70%" text-anchor="{anchor}">{}</text>"#,
                Text(&label)
            ));
        }
        page.into_string()
    }

    /// Draws the marks of a row, from the least to the largest with a line between them.
    pub fn drawn(&self, marks: &Marks) -> String {
        let mut page = Page::default();
        for place in self.ticks().map(|tick| self.place(tick)) {
            page.add(format_args!(r#"<line class="grid" x1="{place:.1}%" x2="{place:.1}%" y2="100%"/>"#));
        }
        let places = marks.values().map(|value| value.map(|value| self.place(value)));
        let (from, to) =
            places.iter().flatten().fold((f64::MAX, f64::MIN), |(from, to), at| (from.min(*at), to.max(*at)));
        if from < to {
            page.add(format_args!(r#"<line class="span" x1="{from:.1}%" x2="{to:.1}%" y1="50%" y2="50%"/>"#));
        }
        let [hollow, filled, end] = places;
        if let Some(at) = end {
            page.add(format_args!(r#"<line class="span" x1="{at:.1}%" x2="{at:.1}%" y1="25%" y2="75%"/>"#));
        }
        for (class, at) in [("hollow", hollow), ("filled", filled)] {
            if let Some(at) = at {
                page.add(format_args!(r#"<circle class="{class}" cx="{at:.1}%" cy="50%" r="4.5"/>"#));
            }
        }
        page.into_string()
    }
}

impl Marks {
    fn values(&self) -> [Option<f64>; 3] {
        [self.hollow, self.filled, self.end].map(|value| value.filter(|value| value.is_finite() && *value > 0.0))
    }

    /// Returns the values in words, from left to right.
    pub fn said(&self, number: fn(f64) -> String) -> String {
        self.values().into_iter().flatten().map(number).collect::<Vec<_>>().join(" · ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(hollow: f64, filled: f64) -> Marks {
        Marks { hollow: Some(hollow), filled: Some(filled), end: None }
    }

    #[test]
    fn values_have_their_places() {
        let axis = Axis::over([marks(20.0, 5_000.0)].into_iter(), |value| value.to_string()).unwrap();
        assert_eq!([10.0, 100.0, 1_000.0, 10_000.0].map(|value| axis.place(value).round()), [0.0, 33.0, 67.0, 100.0]);
        assert_eq!(axis.ticks().map(|tick| tick.round()).collect::<Vec<_>>(), [10.0, 100.0, 1_000.0, 10_000.0]);
        assert!(axis.drawn(&marks(10.0, 10_000.0)).contains(r#"x1="0.0%" x2="100.0%" y1="50%""#));
        assert!(!axis.drawn(&Marks { hollow: Some(20.0), ..Marks::default() }).contains("filled"));
    }

    #[test]
    fn any_values_have_an_axis_and_none_have_none() {
        assert!(
            Axis::over([Marks::default(), marks(f64::NAN, f64::INFINITY), marks(0.0, -1.0)].into_iter(), |_| {
                String::new()
            })
            .is_none()
        );
        for (a, b) in [(1.0, 1.0), (1e-300, 1e300), (0.5, 7.0), (9.99, 10.01)] {
            let axis = Axis::over([marks(a, b)].into_iter(), |value| value.to_string()).unwrap();
            assert!((2..=6).contains(&axis.ticks().count()), "{a} {b}");
            assert!([a, b].iter().all(|value| (0.0..=100.0).contains(&axis.place(*value))), "{a} {b}");
        }
    }
}
