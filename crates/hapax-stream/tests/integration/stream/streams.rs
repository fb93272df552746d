//! `dedup_by` and `claim_by`.

use super::*;
use futures_core::Stream;
use hapax_store::{ErrorKind, TieredAttempt};
use hapax_stream::{StreamExt, Why};
use hapax_testing::store::Fault;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// A stream of a channel's items, which counts those that were taken, and must not be polled after
/// its end.
struct Taken {
    ids: mpsc::UnboundedReceiver<String>,
    taken: Arc<AtomicUsize>,
    has_ended: bool,
}

impl Stream for Taken {
    type Item = String;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<String>> {
        assert!(!self.has_ended, "it is polled after its end");
        let polled = self.ids.poll_recv(cx);
        match &polled {
            Poll::Ready(Some(_)) => drop(self.taken.fetch_add(1, Ordering::Relaxed)),
            Poll::Ready(None) => self.has_ended = true,
            Poll::Pending => {}
        }
        polled
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.ids.len()))
    }
}

fn channel() -> (mpsc::UnboundedSender<String>, Taken, Arc<AtomicUsize>) {
    let (sender, ids) = mpsc::unbounded_channel();
    let taken = Arc::new(AtomicUsize::new(0));
    (sender, Taken { ids, taken: Arc::clone(&taken), has_ended: false }, taken)
}

fn send<'i>(sender: &mpsc::UnboundedSender<String>, ids: impl IntoIterator<Item = &'i str>) {
    ids.into_iter().for_each(|id| sender.send(id.to_owned()).unwrap());
}

async fn next<St: Stream + Unpin>(stream: &mut St) -> Option<St::Item> {
    std::future::poll_fn(|cx| Pin::new(&mut *stream).poll_next(cx)).await
}

/// Returns true if nothing comes, however long one waits.
async fn is_pending<St: Stream + Unpin>(stream: &mut St) -> bool {
    tokio::time::timeout(LEASE / 10, next(stream)).await.is_err()
}

fn batch(items: usize) -> NonZeroUsize {
    NonZeroUsize::new(items).unwrap()
}

#[tokio::test(start_paused = true)]
async fn duplicates_are_left_out_and_order_is_kept() {
    let world = World::new();
    for engine in [world.shared().await, world.exclusive().await] {
        let scope = format!("{:?}", engine.stats().store_calls);
        let engine = engine.with_scope(&scope).unwrap();
        let (sender, ids, _) = channel();
        for n in 0..3_000_u32 {
            send(&sender, [(n * 7 % 1_000).to_string().as_str()]);
        }
        drop(sender);
        let mut fresh = ids.dedup_by(engine, String::clone);
        for n in 0..1_000_u32 {
            assert_eq!(next(&mut fresh).await.unwrap().unwrap(), (n * 7 % 1_000).to_string());
        }
        for _ in 0..3 {
            assert!(next(&mut fresh).await.is_none());
        }
        assert_eq!(fresh.size_hint(), (0, Some(0)));
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_ready_is_asked_about_in_one_batch_and_nothing_waits_for_more() {
    let world = World::new();
    let engine = world.shared().await;
    let (sender, ids, _) = channel();
    let mut fresh = ids.dedup_by(engine.clone(), String::clone);
    send(&sender, ["alone"]);
    assert_eq!(next(&mut fresh).await.unwrap().unwrap(), "alone");
    let ids: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    send(&sender, ids.iter().map(String::as_str));
    for id in &ids {
        assert_eq!(next(&mut fresh).await.unwrap().unwrap(), *id);
    }
    assert_eq!((engine.stats().store_calls, engine.stats().store_requests), (2, 101));
    assert!(is_pending(&mut fresh).await);
}

#[tokio::test(start_paused = true)]
async fn one_batch_is_under_way_while_the_next_gathers_and_no_more_are_taken() {
    let world = World::new();
    let engine = world.engine().timeout(10 * LEASE).build().await.unwrap();
    let (sender, ids, taken) = channel();
    let mut fresh = ids.dedup_by(engine, String::clone).batch(batch(10));
    let ids: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    send(&sender, ids.iter().map(String::as_str));
    world.store.next(Fault::Delays(LEASE));
    assert!(is_pending(&mut fresh).await);
    assert_eq!(taken.load(Ordering::Relaxed), 20, "ten are asked about, ten wait");
    assert_eq!(fresh.size_hint(), (0, Some(100)));
    for id in &ids {
        assert_eq!(next(&mut fresh).await.unwrap().unwrap(), *id);
        assert!(taken.load(Ordering::Relaxed) <= id.parse::<usize>().unwrap() + 30);
    }
}

#[tokio::test(start_paused = true)]
async fn errors_have_their_item_with_them_and_the_stream_goes_on() {
    let world = World::new();
    let engine = world.engine().retries(0).build().await.unwrap();
    let claim = engine.claim("claimed").await.unwrap().claimed().unwrap();
    let (sender, ids, _) = channel();
    let mut fresh = ids.dedup_by(engine.clone(), String::clone);
    send(&sender, ["a", "b", "a"]);
    world.store.next(Fault::Fails(ErrorKind::Unavailable));
    for id in ["a", "b", "a"] {
        let undecided = next(&mut fresh).await.unwrap().unwrap_err();
        assert!(matches!(&undecided.why, Why::Store(error) if error.kind() == ErrorKind::Unavailable), "{undecided}");
        assert_eq!(undecided.item, id);
    }
    send(&sender, ["a", "claimed", "b"]);
    drop(sender);
    assert_eq!(next(&mut fresh).await.unwrap().unwrap(), "a", "it was not marked");
    let undecided = next(&mut fresh).await.unwrap().unwrap_err();
    assert!(matches!(undecided.why, Why::InProgress) && undecided.item == "claimed", "{undecided}");
    assert_eq!(next(&mut fresh).await.unwrap().unwrap(), "b");
    assert!(next(&mut fresh).await.is_none());
    drop(claim);
}

#[tokio::test(start_paused = true)]
async fn claims_come_with_their_items_and_what_is_in_progress_is_not_left_out() {
    let world = World::new();
    let (here, there) = (world.shared().await, world.shared().await);
    there.claim("done").await.unwrap().claimed().unwrap().complete().await.unwrap();
    let theirs = there.claim("theirs").await.unwrap().claimed().unwrap();
    for with_duplicates in [false, true] {
        let (sender, ids, _) = channel();
        let mut claims = ids.claim_by(here.clone(), String::clone);
        if with_duplicates {
            claims = claims.with_duplicates();
        }
        send(&sender, ["new", "done", "theirs"]);
        drop(sender);
        let mut attempts = Vec::new();
        while let Some(attempt) = next(&mut claims).await {
            attempts.push(attempt.unwrap());
        }
        let name = |(id, attempt): &(String, TieredAttempt<Store>)| match attempt {
            TieredAttempt::Claimed(_) => format!("{id} claimed"),
            TieredAttempt::Duplicate(_) => format!("{id} duplicate"),
            TieredAttempt::InProgress { .. } => format!("{id} in progress"),
            other => panic!("{other:?}"),
        };
        let names: Vec<String> = attempts.iter().map(name).collect();
        let (claimed, in_progress) = ("new claimed".to_owned(), "theirs in progress".to_owned());
        if with_duplicates {
            assert_eq!(names, [claimed, "done duplicate".to_owned(), in_progress])
        } else {
            assert_eq!(names, [claimed, in_progress])
        }
        let (_, attempt) = attempts.remove(0);
        attempt.claimed().unwrap().release().await.unwrap();
    }
    theirs.complete().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn claims_of_a_stream_that_is_dropped_are_released_wherever_they_are() {
    for late in [Fault::None, Fault::AnswersLate(LEASE / 100)] {
        let world = World::new();
        let (here, there) = (world.shared().await, world.shared().await);
        let (sender, ids, _) = channel();
        let mut claims = ids.claim_by(here.clone(), String::clone);
        send(&sender, ["a", "b", "c"]);
        world.store.next(late);
        let first = tokio::time::timeout(LEASE / 1_000, next(&mut claims)).await;
        assert_eq!(first.is_ok(), late == Fault::None);
        drop(first);
        drop(claims);
        tokio::time::sleep(LEASE / 10).await;
        for id in ["a", "b", "c"] {
            assert!(there.claim(id).await.unwrap().claimed().is_some(), "{id}, {late:?}");
        }
    }
}
