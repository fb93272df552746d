//! One measurement, as it is handed to a process.

use super::phases::Effort;
use super::workload::{Bytes, Ids};
use super::{IdKind, Measurement, Setting, measure};
use crate::strategy::{Failure, Listed, Strategy, Visitor, listed, visit};
use serde::{Deserialize, Serialize};
use std::marker::PhantomData;

/// One run: a strategy of this crate in a setting.
///
/// ```
/// use hapax_bench::measure::{Case, Effort, Setting};
///
/// let setting = Setting { live: 2_000, ..Setting::default() };
/// let case = Case { strategy: "hapax window".into(), setting, seed: 17, effort: Effort::Quick };
/// let seen = case.measure()?;
/// assert!(seen.checks >= 2_000);
/// assert_eq!(seen.answers.invented, 0);
/// # Ok::<(), hapax_bench::strategy::Failure>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// [`Strategy::NAME`].
    pub strategy: String,
    /// The conditions.
    pub setting: Setting,
    /// The seed of the stream of ids.
    pub seed: u64,
    /// The amount of time that it may take.
    pub effort: Effort,
}

impl Case {
    /// Runs the case, in this process.
    ///
    /// # Errors
    ///
    /// If there is no strategy of this name, and those of [`measure`].
    pub fn measure(&self) -> Result<Measurement, Failure> {
        let seen = match self.setting.ids {
            IdKind::U64 => self.visit::<Vec<u64>>(),
            IdKind::UuidText | IdKind::Key200 => self.visit::<Bytes>(),
        };
        seen.unwrap_or_else(|| Err(format!("there is no strategy that is called {}", self.strategy).into()))
    }

    fn visit<B: Ids>(&self) -> Option<Result<Measurement, Failure>> {
        visit(&self.strategy, Run::<B>(self, PhantomData))
    }
}

struct Run<'a, B>(&'a Case, PhantomData<B>);

impl<B: Ids> Visitor<B::Id> for Run<'_, B> {
    type Output = Result<Measurement, Failure>;

    fn visit<S: Strategy<B::Id>>(self) -> Self::Output {
        measure::<B, S>(&self.0.setting, self.0.seed, self.0.effort)
    }
}

/// Returns the strategies of this build that take ids of a kind.
pub fn listed_for(ids: IdKind) -> Vec<Listed> {
    match ids {
        IdKind::U64 => listed::<u64>(),
        IdKind::UuidText | IdKind::Key200 => listed::<[u8]>(),
    }
}
