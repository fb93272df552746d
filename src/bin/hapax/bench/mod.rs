//! `hapax bench`: which strategy, on which ids, at which cost.

mod output;

pub use output::OutputArgs;

use crate::failure::Failure;

/// Renders a report.
pub fn run(args: &OutputArgs) -> Result<(), Failure> {
    args.check()?;
    match &args.from {
        Some(path) => output::write(&output::read(path)?, args),
        None => Err(Failure::Usage("expected --from REPORT.json".into())),
    }
}
