//! A suite for stores that know the highest version of each id.

#[cfg(test)]
mod tests;

use super::fixture::*;
use super::outcome::{Checked, Failure, Report, Wrong, ensure, is};
use hapax_store::*;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

/// The longest time that the suite waits for a store that does not answer.
const LIMIT: Duration = Duration::from_secs(600);

/// Checks that a store keeps the promises of [`VersionStore`]. As for
/// [`verify_store`](super::verify_store), it takes a multi-threaded runtime of tokio.
///
/// # Errors
///
/// The first answer that is wrong, an error that the store returned, or none for ten minutes.
pub async fn verify_versions<F: Fixture<Store: VersionStore>>(fixture: &F) -> Result<Report, Failure> {
    let suite = Suite { bench: Bench::new(fixture), fixture };
    let checked = match tokio::time::timeout(LIMIT, suite.verify()).await {
        Ok(checked) => checked,
        Err(_) => Err(Wrong::new("a request", format!("an answer within {LIMIT:?}"), format_args!("none"))),
    };
    suite.bench.outcome(checked)
}

struct Suite<'f, F> {
    bench: Bench<'f>,
    fixture: &'f F,
}

/// A case, with a handle to the store.
struct Versions<S> {
    case: Case,
    store: S,
}

impl<S: VersionStore> Versions<S> {
    fn of(&self, id: &str, version: u64, attempt: u64) -> Advance {
        let attempt = self.case.attempt(attempt).unwrap_or_default();
        Advance { key: self.case.key(id), version, attempt, retention: RETENTION }
    }

    async fn advance(&self, id: &str, version: u64, attempt: u64) -> Checked<Advanced> {
        let asked = format!("version {version} of {id:?} by attempt {attempt}");
        self.case.one(asked, self.store.advance(&[self.of(id, version, attempt)]).await)
    }

    async fn is(&self, id: &str, version: u64, attempt: u64, expected: Advanced) -> Checked {
        let got = self.advance(id, version, attempt).await?;
        self.case.is(got, expected)
    }

    async fn known(&self, id: &str) -> Checked<Option<u64>> {
        self.case.one(format!("the version of {id:?}"), self.store.versions(&[self.case.key(id)]).await)
    }
}

use Advanced::{Duplicate, Newer, Stale};

impl<F: Fixture<Store: VersionStore>> Suite<'_, F> {
    async fn verify(&self) -> Checked {
        self.only_higher_versions_pass().await?;
        self.versions_are_numbers_of_64_bits().await?;
        self.asked_again_a_version_gets_the_same_answer().await?;
        self.batches_are_answered_in_order().await?;
        self.retention_counts_from_the_highest_version().await?;
        self.a_version_is_a_record().await?;
        self.what_is_no_version_stays().await?;
        self.times_that_cannot_be_are_refused().await?;
        self.of_many_each_version_passes_once_and_none_after_a_higher_one().await
    }

    async fn case(&self, name: &str) -> Versions<F::Store> {
        let case = self.bench.case(name).await;
        Versions { case, store: self.fixture.open().await }
    }

    async fn only_higher_versions_pass(&self) -> Checked {
        let case = self.case("only higher versions pass").await;
        case.is("a", 5, 1, Newer).await?;
        case.is("a", 5, 2, Duplicate).await?;
        case.is("a", 4, 3, Stale { known: 5 }).await?;
        case.is("a", 7, 4, Newer).await?;
        case.is("a", 6, 5, Stale { known: 7 }).await?;
        case.is("a", 5, 1, Stale { known: 7 }).await?;
        case.is("b", 1, 6, Newer).await?;
        for (id, known) in [("a", Some(7)), ("b", Some(1)), ("c", None)] {
            let got = case.known(id).await?;
            case.case.is(got, known)?;
        }
        Ok(())
    }

    /// Numbers that are alike as text, as doubles, as signed numbers, or in one of their halves.
    async fn versions_are_numbers_of_64_bits(&self) -> Checked {
        let case = self.case("versions are numbers of 64 bits").await;
        let near = |number: u64| [number.saturating_sub(1), number, number.saturating_add(1)];
        let powers = (0..20).map(|digits| 10_u64.pow(digits)).chain((0..64).map(|bits| 1 << bits));
        let mut versions: Vec<u64> = powers.chain([0, u64::MAX]).flat_map(near).collect();
        versions.sort_unstable();
        versions.dedup();
        for (attempt, pair) in (1..).zip(versions.windows(2)) {
            let (lower, higher, id) = (pair[0], pair[1], format!("{}", pair[1]));
            case.is(&id, lower, 3 * attempt, Newer).await?;
            case.is(&id, higher, 3 * attempt + 1, Newer).await?;
            case.is(&id, lower, 3 * attempt + 2, Stale { known: higher }).await?;
            case.is(&id, higher, 3 * attempt + 2, Duplicate).await?;
        }
        Ok(())
    }

    async fn asked_again_a_version_gets_the_same_answer(&self) -> Checked {
        let case = self.case("asked again, a version gets the same answer").await;
        for _ in 0..3 {
            case.is("a", 5, 1, Newer).await?;
        }
        case.is("a", 5, 2, Duplicate).await?;
        case.is("a", 5, 1, Newer).await?;
        case.is("a", 6, 3, Newer).await?;
        case.is("a", 6, 1, Duplicate).await?;
        // What it was asked for has been overtaken.
        case.is("a", 5, 1, Stale { known: 6 }).await
    }

    async fn batches_are_answered_in_order(&self) -> Checked {
        let case = self.case("versions in a batch are answered in order").await;
        let asked = [("a", 5), ("b", 1), ("a", 6), ("a", 5), ("a", 6), ("b", 1), ("a", 8)];
        let batch: Vec<Advance> = (1..).zip(asked).map(|(n, (id, version))| case.of(id, version, n)).collect();
        let expected = vec![Newer, Newer, Newer, Stale { known: 6 }, Duplicate, Duplicate, Newer];
        let got = case.case.all("versions 5, 6, 5, 6, 8 of a, and 1, 1 of b", case.store.advance(&batch).await)?;
        case.case.is(got, expected)?;
        let none = case.case.all("no versions", case.store.advance(&[]).await)?;
        case.case.is(none, vec![])?;
        // Callers who share an attempt may share a batch.
        let shared = [case.of("c", 3, 50), case.of("a", 9, 51), case.of("c", 3, 50), case.of("c", 3, 52)];
        let got =
            case.case.all("version 3 of c by one attempt twice, then another", case.store.advance(&shared).await)?;
        case.case.is(got, vec![Newer, Newer, Newer, Duplicate])?;

        let size = case.store.limits().batch as u64;
        let of = |i: u64, version: u64, by: u64| case.of(&format!("id {}", i.wrapping_mul(31)), version, by + i);
        let half: Vec<Advance> = (0..size).step_by(2).map(|i| of(i, 9, 100)).collect();
        let got = case.case.all("version 9 of half of the ids", case.store.advance(&half).await)?;
        case.case.is(got, vec![Newer; half.len()])?;
        let all: Vec<Advance> = (0..size).map(|i| of(i, 8 + i % 3, 100 + size)).collect();
        let got = case.case.all("versions 8 to 10 of all ids", case.store.advance(&all).await)?;
        is("the number of answers", got.len(), all.len())?;
        for (i, got) in (0..).zip(got) {
            let expected = match i % 3 {
                _ if i % 2 == 1 => Newer,
                0 => Stale { known: 9 },
                1 => Duplicate,
                _ => Newer,
            };
            is(format!("version {} of id {i}", 8 + i % 3), got, expected)?;
        }
        Ok(())
    }

    async fn retention_counts_from_the_highest_version(&self) -> Checked {
        let (bench, case) = (&self.bench, self.case("a version's retention ends").await);
        case.is("a", 5, 1, Newer).await?;
        case.is("b", 5, 2, Newer).await?;
        let early = bench.before(RETENTION);
        bench.advance(early).await;
        case.is("a", 5, 3, Duplicate).await?;
        case.is("a", 4, 4, Stale { known: 5 }).await?;
        case.is("b", 6, 5, Newer).await?;
        let rest = bench.after(RETENTION) - early;
        bench.advance(rest).await;
        // What was not newer has extended nothing.
        let got = case.known("a").await?;
        case.case.is(got, None)?;
        case.is("a", 3, 6, Newer).await?;
        case.is("b", 5, 7, Stale { known: 6 }).await?;
        bench.advance(bench.after(RETENTION) - rest).await;
        case.is("b", 1, 8, Newer).await
    }

    async fn a_version_is_a_record(&self) -> Checked {
        let case = self.case("a version is a completed record").await;
        case.is("a", 5, 1, Newer).await?;
        let known = case.case.look_up("a").await?;
        case.case.is_completed(known)?;
        case.case.is_marked(case.case.mark("a", 2).await?)?;
        let keys = [case.case.key("a")];
        let forgotten = case.case.one("a is forgotten", case.store.forget(&keys).await)?;
        case.case.is(forgotten, true)?;
        case.is("a", 4, 3, Newer).await
    }

    async fn what_is_no_version_stays(&self) -> Checked {
        let case = self.case("what is no version stays").await;
        case.case.is(case.case.mark("marked", 1).await?, Marked::Fresh)?;
        let token = case.case.token("claimed", 2).await?;
        let completed = case.case.token("completed", 3).await?;
        case.case.is(case.case.complete("completed", completed).await?, Held::Done)?;
        case.case.record("recorded", Some(b"00000000000000000007")).await?;
        for id in ["marked", "claimed", "completed", "recorded"] {
            let both = [case.of(id, 9, 4), case.of(&format!("beside {id}"), 9, 5)];
            let answers = case.store.advance(&both).await;
            let is_right = match &answers {
                Ok(answers) => {
                    matches!(&answers[..], [Err(error), Ok(Newer)] if error.kind() == ErrorKind::Misconfigured)
                }
                Err(_) => false,
            };
            ensure(format!("version 9 of {id:?}, and of another id"), is_right, "an error for the first", &answers)?;
            let known = case.store.versions(&[case.case.key(id)]).await;
            let is_right = matches!(known.as_deref(), Ok([Err(error)]) if error.kind() == ErrorKind::Misconfigured);
            ensure(format!("the version of {id:?}"), is_right, "an error", &known)?;
        }
        case.case.is(case.case.complete("claimed", token).await?, Held::Done)?;
        case.case.is_marked(case.case.mark("marked", 6).await?).map(|_| ())
    }

    async fn times_that_cannot_be_are_refused(&self) -> Checked {
        let case = self.case("versions whose retention cannot be are refused").await;
        for (number, retention) in [(10, Duration::ZERO), (20, Duration::MAX)] {
            let id = format!("a {number}");
            let wrong = Advance { retention, ..case.of(&id, 1, number) };
            let answers = case.store.advance(&[wrong, case.of("other", number, number)]).await;
            let is_right = match &answers {
                Ok(answers) => match &answers[..] {
                    [Err(error), Ok(Newer)] => error.to_string().contains("`retention`"),
                    _ => false,
                },
                Err(_) => false,
            };
            ensure("two versions, the first with a wrong `retention`", is_right, "an error, and an answer", &answers)?;
            let got = case.known(&id).await?;
            case.case.is(got, None)?;
        }
        Ok(())
    }

    async fn of_many_each_version_passes_once_and_none_after_a_higher_one(&self) -> Checked {
        const CALLERS: u64 = 6;
        const VERSIONS: u64 = 8;
        let case = self.case("of many callers each version passes once, and none after a higher one").await;
        let mut handles = Vec::new();
        for _ in 0..CALLERS {
            handles.push(Arc::new(self.fixture.open().await));
        }
        for round in 0..20 {
            let (mut racers, start) = (JoinSet::new(), Arc::new(Barrier::new(CALLERS as usize)));
            let id = format!("{round}");
            for (caller, store) in (0..).zip(handles.iter().cloned()) {
                // Each brings all versions, in an order of its own.
                let order = (0..VERSIONS).map(|i| (i * (2 * (caller % 4) + 1) + caller) % VERSIONS);
                let advances: Vec<Advance> =
                    order.map(|version| case.of(&id, version, 1 + caller * VERSIONS + version)).collect();
                let start = Arc::clone(&start);
                racers.spawn(async move {
                    let mut passed = Vec::new();
                    start.wait().await;
                    for advance in advances {
                        let version = advance.version;
                        let answer = store.advance(&[advance]).await?.remove(0)?;
                        passed.push((version, answer));
                    }
                    Ok::<_, StoreError>(passed)
                });
            }
            let mut passed = [0; VERSIONS as usize];
            while let Some(joined) = racers.join_next().await {
                let told = joined.map_err(|error| Wrong::new("a call among others", "an answer", error))?;
                let told = told.map_err(|error| Wrong::new("a version among others", "an answer", error))?;
                let mut highest = None;
                for (version, answer) in &told {
                    let known = match answer {
                        Newer | Duplicate => *version,
                        Stale { known } => *known,
                    };
                    // To one caller, what is known only grows; and nothing passes below it.
                    let is_right = highest <= Some(known) && (*answer != Newer || highest < Some(*version));
                    ensure(format!("versions of {id:?}, to one caller"), is_right, "growing ones", &told)?;
                    highest = Some(known);
                    passed[*version as usize] += u32::from(*answer == Newer);
                }
            }
            let once = passed.iter().all(|times| *times <= 1) && passed[VERSIONS as usize - 1] == 1;
            ensure(format!("how often each version of {id:?} has passed"), once, "once at most", passed)?;
            let got = case.known(&id).await?;
            case.case.is(got, Some(VERSIONS - 1))?;
        }
        Ok(())
    }
}
