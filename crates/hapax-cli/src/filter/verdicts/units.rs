//! Notices numbers whose unit is another one than the options say.

use crate::filter::record::hints::unit_of;
use crate::filter::source::parse::Batch;
use crate::printable::tell;

/// Looks at the first time of a batch, whose unit has so many nanoseconds; none if it has none, or
/// after the warning. In a unit that is too fine it is one of January 1970; in one that is too
/// coarse it was refused when it was parsed.
pub fn look(unit_nanos: &mut Option<u64>, batch: &Batch) {
    let Some((first, nanos)) = batch.times.first().zip(*unit_nanos) else { return };
    let number = (first.as_nanos() / nanos).to_string();
    let other = unit_of(number.as_bytes()).filter(|(a_second, ..)| a_second * nanos != 1_000_000_000);
    let Some((_, option, unit)) = other else { return };
    *unit_nanos = None;
    tell(format_args!(
        "hapax: warning: {}: times cannot be right: `{number}` looks like {unit} since 1970 (--time-format {option})",
        batch.name
    ));
}
