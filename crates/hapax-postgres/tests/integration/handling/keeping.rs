//! Marks that are kept for a time of their own.

use crate::*;
use hapax_postgres::inbox::NewMark;
use hapax_store::ErrorKind;
use tokio_postgres::IsolationLevel;

/// Lets the times of marks pass.
const PASS: &str = "UPDATE {p}_marks SET expires_at = expires_at - interval '2 hours'";

fn mark(id: &str) -> NewMark<'_> {
    NewMark::new(id).keep_for(HOUR)
}

/// Marks ids in a transaction of its own, again while the server undoes it. Returns which were
/// first.
async fn marked(place: &Place, level: IsolationLevel, marks: &[NewMark<'_>]) -> Vec<bool> {
    let mut client = place.client().await;
    loop {
        let mut tx = client.build_transaction().isolation_level(level).start().await.unwrap();
        let seen = match marks {
            [one] => inbox::mark(&mut tx, &place.tables, "c", *one).await.map(|seen| vec![seen]),
            many => inbox::mark_batch(&mut tx, &place.tables, "c", many).await,
        };
        match seen {
            Ok(seen) => {
                if tx.commit().await.is_ok() {
                    return seen.iter().map(|seen| seen.is_first()).collect();
                }
            }
            Err(error) if error.kind() == ErrorKind::Unavailable => tx.rollback().await.unwrap(),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Has several mark ids at once, in either order. Returns how often each was first.
async fn race(place: &Place, level: IsolationLevel, ids: &[&str]) -> Vec<usize> {
    let each = (0..6).map(async |n| {
        let mut marks: Vec<NewMark<'_>> = ids.iter().map(|id| mark(id)).collect();
        if n % 2 == 1 {
            marks.reverse();
        }
        let mut firsts = marked(place, level, &marks).await;
        if n % 2 == 1 {
            firsts.reverse();
        }
        firsts
    });
    let all = futures_util::future::join_all(each).await;
    (0..ids.len()).map(|id| all.iter().filter(|firsts| firsts[id]).count()).collect()
}

#[test]
fn of_all_that_mark_an_id_whose_time_is_over_one_is_first_in_any_state_of_the_buckets() {
    Place::run(async |place| {
        let (admin, holder) = (place.client().await, place.client().await);
        let retention = Retention::new(60 * HOUR, HOUR).unwrap();
        for level in [IsolationLevel::ReadCommitted, IsolationLevel::RepeatableRead] {
            // Single; double, as long as a transaction is open that has marked; single again.
            for state in 0..3 {
                if state == 1 {
                    place.execute(&holder, "BEGIN; SELECT {p}_once('other', uuid_send(gen_random_uuid()))").await;
                    assert_eq!(place.grow_older(&admin, retention, 2 * HOUR).await.begun, 1);
                } else {
                    place.execute(&holder, "COMMIT").await;
                    let _ = retention.expire(&admin, &place.tables).await.unwrap();
                }
                let double = place.count(&admin, "SELECT is_double::integer::bigint FROM {p}_mark_state").await;
                assert_eq!(double == 1, state == 1);
                for ids in [&["m"][..], &["a", "b", "c"]] {
                    for _ in 0..2 {
                        place.execute(&admin, PASS).await;
                        assert_eq!(race(&place, level, ids).await, vec![1; ids.len()], "{level:?}, state {state}");
                    }
                    assert_eq!(race(&place, level, ids).await, vec![0; ids.len()], "{level:?}, state {state}");
                }
            }
        }
    });
}

#[test]
fn each_mark_has_its_own_time_and_others_have_that_of_their_partition() {
    Place::run(async |place| {
        let (admin, level) = (place.client().await, IsolationLevel::ReadCommitted);
        let said_twice = [mark("a"), NewMark::new("b"), mark("a").keep_for(9 * HOUR), mark("c").keep_for(9 * HOUR)];
        assert_eq!(marked(&place, level, &said_twice).await, [true, true, false, true]);
        let described = [NewMark::new("d").kind("k"), mark("e").kind("k")];
        assert_eq!(marked(&place, level, &described).await, [true, true]);
        assert_eq!(marked(&place, level, &[mark("f").subject("s")]).await, [true]);
        place.execute(&admin, PASS).await;
        let ids = ["a", "b", "c", "d", "e", "f"];
        let all = ids.map(NewMark::new);
        assert_eq!(marked(&place, level, &all).await, [true, false, false, false, true, true]);
        // Marked anew without a time, they are kept.
        place.execute(&admin, PASS).await;
        assert_eq!(marked(&place, level, &all).await, [false; 6]);
        place.execute(&admin, "UPDATE {p}_marks SET expires_at = '-infinity' WHERE id = 'c'").await;
        let mut client = place.client().await;
        let mut tx = client.transaction().await.unwrap();
        assert_eq!(inbox::forget(&mut tx, &place.tables, "c", &["b", "c"]).await.unwrap(), 1, "one was over");
    });
}

#[test]
fn a_time_that_cannot_be_is_refused() {
    Place::run(async |place| {
        let mut client = place.client().await;
        let mut tx = client.transaction().await.unwrap();
        for time in [Duration::ZERO, Duration::MAX] {
            let mark = NewMark::new("m").keep_for(time);
            let error = inbox::mark(&mut tx, &place.tables, "c", mark).await.unwrap_err();
            assert!(error.kind() == ErrorKind::Misconfigured && error.to_string().contains("keep_for"), "{error}");
        }
    });
}
