//! Backups that are put back. What they knew is known, and what came later is fresh. Who still
//! holds a claim that was lost changes nothing of its successor's, as docs/design/names.md says.

use super::*;
use crate::directory::{Directory, copy, copy_of_one_moment};
use hapax::Clock;

/// A store's place: how it is opened, and what to do with its backup while it is closed.
pub struct Place<Open, Handle> {
    pub open: Open,
    pub handle: Handle,
    /// The time, where it does not go on by itself.
    pub clock: ManualClock,
}

pub enum Backup {
    Take,
    PutBack,
}

async fn found(store: &impl Inspect, id: &str) -> Inspected {
    one(store.inspect(&[key(id)]).await).unwrap_or_else(|| panic!("nothing is known of {id}"))
}

async fn has_result(store: &impl Inspect, id: &str, result: &str) -> bool {
    let found = found(store, id).await;
    found.state == RecordState::Completed && found.result.as_deref() == Some(result.as_bytes())
}

/// Returns all that a store knows, sorted.
async fn content(store: &impl Inspect) -> String {
    let (mut content, mut next) = (Vec::new(), Some(None));
    while let Some(from) = next {
        let page = store.list(from.as_ref(), 100).await.unwrap();
        content.extend(page.listed.iter().map(|listed| format!("{}: {:?}", listed.key.id, listed.state)));
        next = page.next.map(Some);
    }
    content.sort();
    content.join(", ")
}

impl<S: Inspect, Open: AsyncFn() -> S, Handle: AsyncFn(Backup)> Place<Open, Handle> {
    pub async fn is_put_back(&self) {
        let store = (self.open)().await;
        assert_eq!(mark(&store, "seen").await, Marked::Fresh);
        let (a, b) = (claim(&store, "a").await, claim(&store, "b").await);
        assert_eq!(complete(&store, "b", b, "b's").await, Held::Done);
        drop(store);
        (self.handle)(Backup::Take).await;

        self.clock.advance(Duration::from_secs(2));
        let store = (self.open)().await;
        let lost = mark_of("seen later", DAY);
        assert_eq!(one(store.mark(std::slice::from_ref(&lost)).await), Marked::Fresh);
        let (c, d) = (claim(&store, "c").await, claim(&store, "d").await);
        assert_eq!(complete(&store, "d", d, "d's").await, Held::Done);
        assert_eq!(one(store.renew(&[Renewal { hold: hold("a", a), lease: 2 * LEASE }]).await), Held::Done);
        assert!(one(store.forget(&[key("b")]).await));
        assert_eq!(content(&store).await, "a: Claimed, c: Claimed, d: Completed, seen later: Marked, seen: Marked");
        drop(store);
        (self.handle)(Backup::PutBack).await;

        self.clock.advance(Duration::from_secs(2));
        let store = (self.open)().await;
        assert_eq!(content(&store).await, "a: Claimed, b: Completed, seen: Marked");
        assert!(matches!(mark(&store, "seen").await, Marked::Duplicate { .. }));
        assert!(has_result(&store, "b", "b's").await);
        let held = found(&store, "a").await;
        assert!(held.token == Some(a) && held.expires_in <= LEASE, "{held:?}: it was not renewed");
        assert_eq!(complete(&store, "a", a, "a's").await, Held::Done);
        assert!(has_result(&store, "a", "a's").await);
        // A mark is its attempt's: who made the one that was lost takes back none but that.
        assert_eq!(mark(&store, "seen later").await, Marked::Fresh);
        assert_eq!(one(store.unmark(&[Unmark { key: lost.key, attempt: lost.attempt }]).await), Unmarked::NotThere);
        assert!(is_done(&store, "seen later").await);
        for (id, first) in [("c", c), ("d", d)] {
            let second = claim(&store, id).await;
            is_its_second_workers(&store, id, first, second).await;
        }
    }

    /// Claims three ids after a backup, and again when it is put back, at these times of the clock.
    /// Returns the tokens of both.
    async fn drawn(&self, ids: &[String; 3], at: [Timestamp; 2]) -> (S, [Vec<u64>; 2]) {
        claim(&(self.open)().await, &ids.concat()).await;
        (self.handle)(Backup::Take).await;
        let draw = async |now| {
            self.clock.set(now);
            let (store, mut tokens) = ((self.open)().await, Vec::new());
            for id in ids {
                tokens.push(claim(&store, id).await);
            }
            (store, tokens)
        };
        let (store, first) = draw(at[0]).await;
        drop(store);
        (self.handle)(Backup::PutBack).await;
        let (store, second) = draw(at[1]).await;
        (store, [first, second])
    }

    /// Shows when tokens are drawn again. `ahead`: by how far they begin ahead of the clock.
    pub async fn draws_again_only_if_the_clock_is_behind(&self, ahead: Duration) {
        let (micro, second) = (Duration::from_micros(1), Duration::from_secs(1));
        for case in 0..4 {
            let backed_up = self.clock.now() + 3 * LEASE;
            self.clock.set(backed_up);
            let (at, again) = [
                ([backed_up - LEASE; 2], true),
                ([backed_up + 9 * second; 2], true),
                ([backed_up + 9 * second, backed_up + 9 * second + micro], false),
                ([backed_up + second / 3, backed_up + second / 2], ahead == second),
            ][case];
            let ids = ["1", "2", "3"].map(|id| format!("{case} {id}"));
            let (store, [first, second]) = self.drawn(&ids, at).await;
            assert_eq!(first == second, again, "{case}: {first:?}, {second:?}");
            if again {
                is_both_workers(&store, &ids, &second).await;
            } else {
                for (i, id) in ids.iter().enumerate() {
                    is_its_second_workers(&store, id, first[i], second[i]).await;
                }
            }
        }
    }
}

/// Checks a claim that was made anew after the loss: the first worker's token is nobody's.
async fn is_its_second_workers(store: &impl Inspect, id: &str, first: u64, second: u64) {
    assert!(second > first, "{second} after {first}");
    assert!(is_lost(store, id, first).await);
    let held = found(store, id).await;
    assert!(held.state == RecordState::Claimed && held.token == Some(second) && held.expires_in <= LEASE, "{held:?}");
    assert_eq!(complete(store, id, second, "the second's").await, Held::Done);
    assert!(is_lost(store, id, first).await);
    assert!(has_result(store, id, "the second's").await);
}

/// Checks claims whose tokens two workers have.
async fn is_both_workers(store: &impl Inspect, ids: &[String; 3], tokens: &[u64]) {
    // The second completion is answered by the first one's, whosever that is.
    for (i, order) in [(0, ["the first's", "the second's"]), (1, ["the second's", "the first's"])] {
        for result in order {
            assert_eq!(complete(store, &ids[i], tokens[i], result).await, Held::Done);
        }
        assert!(has_result(store, &ids[i], order[0]).await);
    }
    // What the first worker releases is the second one's, and a third one gets it.
    assert_eq!(one(store.release(&[hold(&ids[2], tokens[2])]).await), Held::Done);
    assert!(claim(store, &ids[2]).await > tokens[2]);
    assert_eq!(complete(store, &ids[2], tokens[2], "the second's").await, Held::Lost);
}

/// Handles the files of an embedded store.
pub async fn handle_files(directory: &Directory, backup: Backup) {
    let [files, copied] = ["files", "copied"].map(|name| directory.path().join(name));
    match backup {
        Backup::Take => copy_of_one_moment(&files, &copied),
        Backup::PutBack => {
            std::fs::remove_dir_all(&files).unwrap();
            copy(&copied, &files).unwrap();
        }
    }
}
