//! The record of who handled what, and when; what is kept of finished messages; and marks that are
//! removed.

use crate::*;
use hapax_postgres::inbox::{Handled, HandledQuery, NewMark};
use hapax_store::ErrorKind;
use std::time::SystemTime;

pub async fn mark(place: &Place, client: &mut Client, consumer: &str, mark: NewMark<'_>) -> Seen {
    let mut tx = client.transaction().await.unwrap();
    let seen = inbox::mark(&mut tx, &place.tables, consumer, mark).await.unwrap();
    tx.commit().await.unwrap();
    seen
}

pub async fn list(place: &Place, client: &Client, query: HandledQuery<'_>) -> Vec<Handled> {
    inbox::handled(client, &place.tables, query).await.unwrap()
}

fn ids(events: &[Handled]) -> Vec<String> {
    events.iter().map(|event| text(&event.id)).collect()
}

/// Lets the partitions grow older by so many hours, and does what is due.
async fn grow_older(place: &Place, client: &Client, by_hours: u32) -> Cleanup {
    place.grow_older(client, Retention::new(10 * HOUR, HOUR).unwrap(), by_hours * HOUR).await
}

#[test]
fn who_handled_the_events_of_a_subject_and_when_is_one_question() {
    Place::run(async |place| {
        let mut client = place.client().await;
        let before = SystemTime::now();
        for (n, subject) in ["order-17", "order-18", "order-17", "order-17"].into_iter().enumerate() {
            let id = format!("m-{n}");
            let event = NewMark::new(&id).kind("order.paid").source("/orders").subject(subject).processor("billing-0");
            assert!(mark(&place, &mut client, "billing", event).await.is_first());
            assert!(!mark(&place, &mut client, "billing", event).await.is_first(), "a redelivery");
            let shipped = NewMark::new(&id).kind("order.shipped").subject(subject);
            assert!(mark(&place, &mut client, "shipping", shipped).await.is_first());
        }
        // What was undone was not handled, and of what says nothing nothing is written down.
        let mut tx = client.transaction().await.unwrap();
        let undone = NewMark::new("undone").subject("order-17");
        assert!(inbox::mark(&mut tx, &place.tables, "billing", undone).await.unwrap().is_first());
        tx.rollback().await.unwrap();
        assert!(mark(&place, &mut client, "billing", NewMark::new("bare")).await.is_first());
        assert!(!place.once(&mut client, "billing", "m-0").await.is_first(), "they share marks");
        assert_eq!(place.count(&client, "SELECT count(*) FROM {p}_handled").await, 8);

        let of_order = HandledQuery::of_subject("order-17");
        assert_eq!(ids(&list(&place, &client, of_order).await), ["m-0", "m-0", "m-2", "m-2", "m-3", "m-3"]);
        let billed = list(&place, &client, of_order.consumer("billing")).await;
        assert_eq!(ids(&billed), ["m-0", "m-2", "m-3"]);
        for event in &billed {
            assert_eq!((event.kind.as_deref(), event.source.as_deref()), (Some("order.paid"), Some("/orders")));
            assert_eq!((event.processor.as_deref(), event.attempts), (Some("billing-0"), 1));
            assert!(event.handled_at + ms(1) >= before && event.handled_at <= SystemTime::now() + ms(1));
            assert!(!event.is_kept && event.message.is_none() && event.requeued_at.is_none());
        }
        assert_eq!(ids(&list(&place, &client, of_order.kind("order.shipped")).await), ["m-0", "m-2", "m-3"]);
        assert_eq!(ids(&list(&place, &client, of_order.processor("billing-0")).await), ["m-0", "m-2", "m-3"]);
        assert_eq!(ids(&list(&place, &client, HandledQuery::of_subject("order-1")).await), [""; 0]);
        // In pages.
        let (mut query, mut paged) = (HandledQuery::all().limit(3), Vec::new());
        loop {
            let page = list(&place, &client, query).await;
            let Some(last) = page.last() else { break };
            assert!(page.len() <= 3);
            query = query.behind(last.number);
            paged.extend(ids(&page));
        }
        assert_eq!(paged, ["m-0", "m-0", "m-1", "m-1", "m-2", "m-2", "m-3", "m-3"]);
        let sql =
            format!("EXPLAIN SELECT FROM {}_handled WHERE slot IN (1) AND subject = 'a' AND number > 0", place.prefix);
        client.batch_execute("SET enable_seqscan = off").await.unwrap();
        let plan: Vec<String> = client.query(&sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
        assert!(plan.iter().any(|line| line.contains("subject")), "{plan:?}");
    });
}

#[test]
fn of_a_batch_each_is_marked_and_written_down_as_it_would_be_alone() {
    Place::run(async |place| {
        let mut client = place.client().await;
        assert!(mark(&place, &mut client, "c", NewMark::new("old").subject("s")).await.is_first());
        assert_eq!(grow_older(&place, &client, 2).await.begun, 1);
        let long = "x".repeat(ID_BYTES_MAX);
        let marks = [
            NewMark::new("z").subject("s").kind("first said"),
            NewMark::new("old").subject("s"),
            NewMark::new("z").subject("s").kind("said later"),
            NewMark::new("bare"),
            NewMark::new(&long).subject("s").processor("p"),
        ];
        for commits in [false, true] {
            let mut tx = client.transaction().await.unwrap();
            let seen = inbox::mark_batch(&mut tx, &place.tables, "c", &marks).await.unwrap();
            let is_first: Vec<bool> = seen.iter().map(|seen| seen.is_first()).collect();
            assert_eq!(is_first, [true, false, false, true, true]);
            if commits { tx.commit().await.unwrap() } else { tx.rollback().await.unwrap() }
        }
        let listed = list(&place, &client, HandledQuery::of_subject("s")).await;
        assert_eq!(ids(&listed), ["old", "z", &long]);
        assert_eq!(listed[1].kind.as_deref(), Some("first said"));
        assert_eq!(place.count(&client, "SELECT count(*) FROM {p}_handled").await, 3);
        let mut tx = client.transaction().await.unwrap();
        let none: [NewMark<'_>; 0] = [];
        assert!(inbox::mark_batch(&mut tx, &place.tables, "c", &none).await.unwrap().is_empty());
        let many = vec![NewMark::new("a").kind("k"); inbox::BATCH_IDS_MAX + 1];
        let error = inbox::mark_batch(&mut tx, &place.tables, "c", &many).await.unwrap_err();
        assert!(error.kind() == ErrorKind::Misconfigured && error.to_string().contains("at most 1000"), "{error}");
        let longer = "x".repeat(ID_BYTES_MAX + 1);
        assert!(inbox::mark(&mut tx, &place.tables, "c", NewMark::new(&longer).kind("k")).await.is_err());
        assert!(inbox::mark(&mut tx, &place.tables, "c", NewMark::new(&longer)).await.unwrap().is_first());
    });
}

/// A handler that fails for each message once, and keeps a result then.
struct Second(Tables);

impl Handler for Second {
    async fn handle(&self, tx: &mut tokio_postgres::Transaction<'_>, message: &Message) -> Result<(), BoxError> {
        if message.attempts == 0 {
            return Err("not yet".into());
        }
        let is_kept = match message.name.as_str() {
            "nothing" => false,
            "described" => message.kind.is_some() || message.subject.is_some(),
            _ => true,
        };
        assert_eq!(inbox::keep_result(tx, &self.0, message, "done").await?, is_kept, "{message:?}");
        let too_much = vec![0; inbox::RESULT_BYTES_MAX + 1];
        assert!(inbox::keep_result(tx, &self.0, message, &too_much).await.is_err());
        Ok(())
    }
}

#[test]
fn a_worker_keeps_what_it_is_told_to_and_nothing_else() {
    Place::run(async |place| {
        let mut client = place.client().await;
        for (keep, kept, whole) in [(Keep::Nothing, 0, 0), (Keep::default(), 2, 0), (Keep::Messages, 3, 3)] {
            let consumer = format!("{keep:?}").to_lowercase();
            let plain = NewMessage::new("plain", "1").key("k");
            let kind = NewMessage::new("kind", "2").kind("paid").headers(&[("a", "b\"{}")]);
            let subject = NewMessage::new("subject", "3").subject("order-17").source("/orders").key("k");
            for message in [plain, kind, subject] {
                assert!(place.receive(&mut client, &consumer, message).await.is_first());
            }
            let worker = place.worker(&consumer).keep(keep).processor("pod '7'\\").unwrap();
            let handler = Arc::new(Second(place.tables.clone()));
            let left = format!("SELECT count(*) FROM {{p}}_inbox WHERE name = '{consumer}'");
            let done = until("all are handled", async || place.count(&client, &left).await == 0);
            worker.run(handler, done).await.unwrap();
            let all = HandledQuery::all().consumer(&consumer);
            let events = list(&place, &client, all.content()).await;
            assert_eq!((events.len(), events.iter().filter(|event| event.is_kept).count()), (kept, whole), "{keep:?}");
            for event in &events {
                assert_eq!((event.attempts, event.error.as_deref()), (2, Some("not yet")));
                assert_eq!(
                    (event.result.as_deref(), event.processor.as_deref()),
                    (Some(&b"done"[..]), Some("pod '7'\\"))
                );
                assert!(event.received_at.unwrap() <= event.handled_at);
                assert_eq!(event.message.is_some(), whole > 0);
                let Some(message) = &event.message else { continue };
                let (key, headers) = match text(&event.id).as_str() {
                    "kind" => (None, vec![("a".to_owned(), "b\"{}".to_owned())]),
                    _ => (Some(b"k".to_vec()), Vec::new()),
                };
                assert_eq!((&message.key, &message.headers, &message.id), (&key, &headers, &event.id));
            }
            // Without being asked for, no content is sent.
            assert!(list(&place, &client, all).await.iter().all(|event| event.message.is_none()));
        }
        let mut tx = client.transaction().await.unwrap();
        let gone = list(&place, &place.client().await, HandledQuery::all().content()).await.remove(2);
        let gone = gone.message.unwrap();
        assert!(!inbox::keep_result(&mut tx, &place.tables, &gone, "late").await.unwrap(), "it is not there");
    });
}

/// Checks that nothing stays for longer than the marks of its time.
pub async fn rotate_all(place: &Place, client: &mut Client) {
    for round in 0..3 {
        let _ = mark(place, client, "c", NewMark::new(&format!("m-{round}")).subject("s")).await;
        grow_older(place, client, 2).await;
    }
    assert_eq!(list(place, client, HandledQuery::of_subject("s")).await.len(), 3);
    assert!(grow_older(place, client, 20).await.dropped > 0);
    assert_eq!(list(place, client, HandledQuery::of_subject("s")).await, []);
    assert_eq!(place.count(client, "SELECT count(*) FROM {p}_handled").await, 0);
}

#[test]
fn what_was_handled_goes_with_the_marks_of_its_time() {
    Place::run(async |place| {
        let mut client = place.client().await;
        rotate_all(&place, &mut client).await;
        // As often as there are slots, and more.
        for round in 0..70 {
            let id = format!("r-{round}");
            assert!(mark(&place, &mut client, "c", NewMark::new(&id).subject("s")).await.is_first());
            grow_older(&place, &client, 2).await;
        }
        let kept = list(&place, &client, HandledQuery::of_subject("s")).await;
        assert!((4..=8).contains(&kept.len()), "ten hours of two each: {}", kept.len());
        assert_eq!(ids(&kept).last().map(String::as_str), Some("r-69"));
        assert_eq!(place.count(&client, "SELECT count(*) FROM {p}_handled").await, kept.len() as i64);
        // A reader puts the emptying off, and nobody waits.
        let reader = place.client().await;
        place.execute(&reader, "BEGIN; SELECT count(*) FROM {p}_handled").await;
        assert!(grow_older(&place, &client, 20).await.put_off);
        assert!(mark(&place, &mut client, "c", NewMark::new("late").subject("s")).await.is_first());
        reader.batch_execute("COMMIT").await.unwrap();
        assert!(!grow_older(&place, &client, 20).await.put_off);
    });
}

/// Marks in one transaction while partitions begin: each slot is one that its session has heard of.
#[test]
fn a_transaction_writes_down_on_while_partitions_begin() {
    Place::run(async |place| {
        let (mut before, mut client, cleaner) = (place.client().await, place.client().await, place.client().await);
        let (handler, worker) = (Arc::new(Keeps::default()), place.worker("w"));
        for round in 0..3 {
            let mut holds = before.transaction().await.unwrap();
            let id = |what: &str| format!("{what}{round}");
            let _ = inbox::once(&mut holds, &place.tables, "c", id("hold")).await.unwrap();
            let mut tx = client.transaction().await.unwrap();
            let a = id("a");
            assert!(inbox::mark(&mut tx, &place.tables, "c", NewMark::new(&a).subject("s")).await.unwrap().is_first());
            assert!(grow_older(&place, &cleaner, 2).await.put_off);
            holds.commit().await.unwrap();
            let b = id("b");
            assert!(inbox::mark(&mut tx, &place.tables, "c", NewMark::new(&b).subject("s")).await.unwrap().is_first());
            let batch = ["a", "b", "d"].map(id);
            let batch = [0, 1, 2].map(|at: usize| NewMark::new(&batch[at]).subject("s"));
            let seen = inbox::mark_batch(&mut tx, &place.tables, "c", &batch).await.unwrap();
            assert_eq!(seen.iter().map(|seen| seen.is_first()).collect::<Vec<_>>(), [false, false, true]);
            let mut other = place.client().await;
            let w = id("w");
            let _ = place.receive(&mut other, "w", NewMessage::new(&w, "").subject("s")).await;
            assert_eq!(worker.step(&handler).await.unwrap(), 1);
            tx.commit().await.unwrap();
            assert!(!grow_older(&place, &cleaner, 0).await.put_off);
        }
        assert_eq!(list(&place, &cleaner, HandledQuery::of_subject("s")).await.len(), 12);
    });
}

/// Forgets ids wherever their marks lie.
pub async fn forget_all(place: &Place, client: &mut Client) {
    let cleaner = place.client().await;
    for id in ["old", "kept"] {
        let _ = mark(place, client, "c", NewMark::new(id).subject("s")).await;
    }
    grow_older(place, &cleaner, 2).await;
    let _ = mark(place, client, "c", NewMark::new("new")).await;
    // A double state: marks lie in two buckets.
    let mut still = place.client().await;
    let mut holds = still.transaction().await.unwrap();
    let _ = inbox::once(&mut holds, &place.tables, "c", "hold").await.unwrap();
    assert!(grow_older(place, &cleaner, 2).await.put_off);
    let _ = mark(place, client, "c", NewMark::new("double")).await;
    let _ = mark(place, client, "d", NewMark::new("old")).await;

    let mut tx = client.transaction().await.unwrap();
    let forgotten = inbox::forget(&mut tx, &place.tables, "c", &["old", "new", "double", "new", "none"]).await.unwrap();
    tx.commit().await.unwrap();
    holds.rollback().await.unwrap();
    let mut seen = Vec::new();
    for (consumer, id) in [("c", "old"), ("c", "new"), ("c", "double"), ("c", "kept"), ("d", "old")] {
        seen.push(mark(place, client, consumer, NewMark::new(id)).await.is_first());
    }
    assert_eq!((forgotten, seen.as_slice()), (3, &[true, true, true, false, false][..]));
}

#[test]
fn what_is_forgotten_is_first_again_once() {
    Place::run(async |place| {
        let mut client = place.client().await;
        forget_all(&place, &mut client).await;
        assert_eq!(list(&place, &client, HandledQuery::of_subject("s")).await.len(), 2, "they were handled");
        // Undone, it is not forgotten; until the commit it is a duplicate to others.
        let mut other = place.client().await;
        for commits in [false, true] {
            let mut tx = client.transaction().await.unwrap();
            assert_eq!(inbox::forget(&mut tx, &place.tables, "c", &["kept"]).await.unwrap(), 1);
            assert!(!mark(&place, &mut other, "c", NewMark::new("kept")).await.is_first());
            if commits { tx.commit().await.unwrap() } else { tx.rollback().await.unwrap() }
        }
        // Then it is first once.
        for first in [true, false] {
            assert_eq!(place.once(&mut client, "c", "kept").await.is_first(), first);
        }
        // A message that waits is a duplicate without its mark.
        let message = NewMessage::new("waits", "");
        assert!(place.receive(&mut client, "c", message).await.is_first());
        let mut tx = client.transaction().await.unwrap();
        assert_eq!(inbox::forget(&mut tx, &place.tables, "c", &["waits"]).await.unwrap(), 1);
        assert_eq!(inbox::forget(&mut tx, &place.tables, "c", &[""; 0]).await.unwrap(), 0);
        let many = vec!["a"; inbox::BATCH_IDS_MAX + 1];
        assert!(inbox::forget(&mut tx, &place.tables, "c", &many).await.is_err());
        tx.commit().await.unwrap();
        assert!(!place.receive(&mut client, "c", message).await.is_first());
        assert_eq!(place.count(&client, "SELECT count(*) FROM {p}_inbox").await, 1);
        // It does not keep slots from being emptied.
        let mut tx = client.transaction().await.unwrap();
        inbox::forget(&mut tx, &place.tables, "c", &["new"]).await.unwrap();
        let cleaner = place.client().await;
        grow_older(&place, &cleaner, 2).await;
        tx.rollback().await.unwrap();
        assert!(grow_older(&place, &cleaner, 40).await.dropped > 0);
    });
}

/// Races marks against forgetting, over partitions that begin: an id is first once more than it was
/// forgotten, or as often.
#[test]
fn of_marks_and_forgetting_at_once_each_forgotten_mark_is_one_that_was_made() {
    Place::run(async |place| {
        const IDS: u64 = 20;
        let place = Arc::new(place);
        let first: Arc<[AtomicU64]> = (0..IDS).map(|_| AtomicU64::new(0)).collect();
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let forgotten = Arc::new(AtomicU64::new(0));
        let mut racers = tokio::task::JoinSet::new();
        for racer in 0..5 {
            let (place, first, stop, forgotten) =
                (Arc::clone(&place), Arc::clone(&first), Arc::clone(&stop), Arc::clone(&forgotten));
            racers.spawn(async move {
                let (mut client, mut n) = (place.client().await, racer);
                while !stop.load(Ordering::Relaxed) {
                    n = (n * 7 + 3) % IDS;
                    let id = n.to_string();
                    if racer < 3 {
                        if mark(&place, &mut client, "c", NewMark::new(&id).subject("s")).await.is_first() {
                            first[n as usize].fetch_add(1, Ordering::Relaxed);
                        }
                    } else {
                        let mut tx = client.transaction().await.unwrap();
                        let gone = inbox::forget(&mut tx, &place.tables, "c", &[&id]).await.unwrap();
                        tx.commit().await.unwrap();
                        forgotten.fetch_add(gone, Ordering::Relaxed);
                    }
                }
            });
        }
        let cleaner = place.client().await;
        for _ in 0..20 {
            grow_older(&place, &cleaner, 1).await;
            tokio::time::sleep(ms(20)).await;
        }
        stop.store(true, Ordering::Relaxed);
        racers.join_all().await;
        let mut client = place.client().await;
        let mut marked = 0;
        for n in 0..IDS {
            marked += u64::from(!mark(&place, &mut client, "c", NewMark::new(&n.to_string())).await.is_first());
        }
        let first: u64 = first.iter().map(|first| first.load(Ordering::Relaxed)).sum();
        let forgotten = forgotten.load(Ordering::Relaxed);
        println!("{first} were first, {forgotten} forgotten, {marked} are marked");
        // Marks of partitions that are over were removed by nobody.
        assert!(first >= forgotten + marked && forgotten > 0, "{first} {forgotten} {marked}");
    });
}

/// An event whose transaction commits late, and another one that has got a larger number.
#[test]
fn whoever_follows_what_was_handled_misses_no_event_that_is_committed_late() {
    Place::run(async |place| {
        let (mut late, mut client) = (place.client().await, place.client().await);
        let mut tx = late.transaction().await.unwrap();
        let event = |id: &'static str| NewMark::new(id).subject("s");
        assert!(inbox::mark(&mut tx, &place.tables, "c", event("early")).await.unwrap().is_first());
        let mut other = client.transaction().await.unwrap();
        assert!(inbox::mark(&mut other, &place.tables, "c", event("late")).await.unwrap().is_first());
        other.commit().await.unwrap();
        let (mut behind, mut followed) = (0, Vec::new());
        let mut follow = async |client: &Client| {
            let page =
                inbox::handled(client, &place.tables, HandledQuery::of_subject("s").behind(behind)).await.unwrap();
            behind = page.last().map_or(behind, |last| last.number);
            followed.extend(page.into_iter().map(|event| String::from_utf8(event.id).unwrap()));
            followed.len()
        };
        let beside = follow(&client).await;
        tx.commit().await.unwrap();
        follow(&client).await;
        println!("{beside} beside the open transaction");
        assert_eq!(followed, ["early", "late"]);
    });
}
