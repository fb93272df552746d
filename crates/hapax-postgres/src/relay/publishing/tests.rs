use super::*;
use crate::claims::queue::{Fate, Unfit};
use crate::schema::tables::Queue;
use crate::telemetry::meters::Counts;
use hapax_message::GiveUp;
use std::time::SystemTime;

/// A publisher that takes a second for each message, and fails for those that are named; in
/// batches, if it has any.
struct Slow {
    failing: &'static [u8],
    answers: Option<usize>,
    published: Mutex<Vec<u8>>,
}

impl Slow {
    fn one(&self, message: &Message) -> Result<(), BoxError> {
        if !self.failing.contains(&message.id[0]) {
            self.published.lock().unwrap().push(message.id[0]);
            return Ok(());
        }
        Err(if message.id == [9] { GiveUp::because("gone").into() } else { "refused".into() })
    }
}

impl Publisher for Slow {
    async fn publish(&self, message: &Message) -> Result<(), BoxError> {
        tokio::time::sleep(Duration::from_secs(1)).await;
        self.one(message)
    }

    async fn publish_batch(&self, messages: &[Message]) -> Option<Vec<Result<(), BoxError>>> {
        let answers = self.answers?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(messages.iter().all(|message| message.id != [7]), "seven");
        Some(messages.iter().map(|message| self.one(message)).take(answers).collect())
    }
}

fn run(key: u8, ids: &[u8]) -> Run {
    let message = |id| {
        let mut message = Message::new("t", [id], [0; 10]);
        message.key = Some(vec![key]);
        message.attempts = 2;
        message.enqueued_at = SystemTime::now();
        message
    };
    let claimed = |&id: &u8| Claimed {
        position: id.into(),
        message: message(id),
        unfit: (id == 8).then_some(Unfit::Expired),
        was_lost: false,
    };
    let messages = ids.iter().map(claimed).collect();
    Run { name: "t".into(), key: Some(vec![key]), token: 7, claimed_at: Instant::now(), messages }
}

fn publishing(failing: &'static [u8], answers: Option<usize>, timeout_ms: u64) -> Publishing<Slow> {
    let slow = Slow { failing, answers, published: Mutex::new(vec![]) };
    let ms = Duration::from_millis;
    let retry = Retry::new(ms(100), ms(1_000)).unwrap().attempts_max(Some(4)).unwrap();
    let meters = Meters::new(&Arc::<Counts>::default(), Queue::Outbox, None);
    Publishing::new(Arc::new(slow), retry, ms(timeout_ms), meters)
}

fn published(publishing: &Publishing<Slow>) -> Vec<u8> {
    publishing.publisher.published.lock().unwrap().clone()
}

/// Publishes messages of one key.
async fn singly(failing: &'static [u8], timeout_ms: u64, begin_ms: u64) -> (Vec<Fate>, Vec<u8>) {
    let publishing = publishing(failing, None, timeout_ms);
    let run = publishing.open(run(0, &[1, 8, 2, 9, 4]), false, Instant::now() + Duration::from_millis(begin_ms));
    assert_eq!(publishing.in_flight(), (1, 5 * 12));
    let outcome = publishing.singly(run).await;
    assert_eq!(publishing.in_flight(), (0, 0));
    (outcome.fates.into_iter().map(|tried| tried.fate).collect(), published(&publishing))
}

fn failed(error: &str) -> Fate {
    Fate::Failed { error: error.into(), delay: Duration::from_millis(400) }
}

#[tokio::test(start_paused = true)]
async fn what_is_behind_a_failure_or_too_late_is_given_back() {
    let expired = || Fate::dead("it expired before it was published");
    let all = singly(&[], 2_000, 60_000).await;
    assert_eq!(all, (vec![Fate::Done, expired(), Fate::Done, Fate::Done, Fate::Done], vec![1, 2, 9, 4]));
    let second = singly(&[2], 2_000, 60_000).await;
    assert_eq!(second, (vec![Fate::Done, expired(), failed("refused")], vec![1]));
    let gone = singly(&[9], 2_000, 60_000).await;
    assert_eq!(gone, (vec![Fate::Done, expired(), Fate::Done, Fate::dead("gone")], vec![1, 2]));
    // Messages began at 0 and 1 seconds, but not at 2.
    let late = singly(&[], 2_000, 1_500).await;
    assert_eq!(late, (vec![Fate::Done, expired(), Fate::Done], vec![1, 2]));
    assert_eq!(singly(&[], 2_000, 0).await, (vec![], vec![]));
    assert_eq!(singly(&[], 500, 60_000).await, (vec![failed("it took longer than 500ms")], vec![]));
}

/// Publishes messages of three keys.
async fn together(failing: &'static [u8], answers: usize, timeout_ms: u64) -> (Vec<Vec<Fate>>, Vec<u8>) {
    let publishing = publishing(failing, Some(answers), timeout_ms);
    let until = Instant::now() + Duration::from_secs(60);
    let runs = [run(1, &[1, 2, 3]), run(2, &[8, 4]), run(3, &[5, 7])];
    let runs = runs.map(|run| publishing.open(run, false, until)).into();
    let Ok(outcomes) = publishing.together(runs).await else { panic!("three runs") };
    let fates = |outcome: Outcome| outcome.fates.into_iter().map(|tried| tried.fate).collect();
    (outcomes.into_iter().map(fates).collect(), published(&publishing))
}

#[tokio::test(start_paused = true)]
async fn a_batch_has_the_first_of_each_key_and_an_answer_for_each() {
    let expired = || Fate::dead("it expired before it was published");
    let panics = || failed("publish_batch of 2 messages: it panicked: seven");
    let all = together(&[], 9, 2_000).await;
    let fates = vec![vec![Fate::Done, panics()], vec![expired(), Fate::Done], vec![Fate::Done, panics()]];
    assert_eq!(all, (fates, vec![1, 4, 5]));
    let one = together(&[5], 9, 2_000).await;
    let fates = vec![vec![Fate::Done; 3], vec![expired(), Fate::Done], vec![failed("refused")]];
    assert_eq!(one, (fates, vec![1, 4, 2, 3]));
    let few = together(&[], 2, 2_000).await.0;
    let wrong = || failed("expected 3 answers of publish_batch, got 2");
    assert_eq!(few, [vec![wrong()], vec![expired(), wrong()], vec![wrong()]]);
    let late = together(&[], 9, 500).await.0;
    let late_too = || failed("publish_batch of 3 messages: it took longer than 500ms");
    assert_eq!(late, [vec![late_too()], vec![expired(), late_too()], vec![late_too()]]);
}

#[tokio::test(start_paused = true)]
async fn a_publisher_without_batches_is_asked_once_and_loses_nothing() {
    let publishing = publishing(&[], None, 2_000);
    let until = Instant::now() + Duration::from_secs(60);
    let runs = [run(1, &[1, 2]), run(2, &[3])].map(|run| publishing.open(run, false, until)).into();
    assert!(publishing.is_batching());
    let Err(runs) = publishing.together(runs).await else { panic!("it has no batches") };
    assert!(!publishing.is_batching());
    for run in runs {
        publishing.singly(run).await;
    }
    assert_eq!(published(&publishing), [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn what_was_claimed_when_its_topic_paused_is_given_back_untried() {
    let publishing = publishing(&[1, 9], None, 2_000);
    let until = Instant::now() + Duration::from_secs(60);
    let fates = async |id: u8, attempts: u32, topic: &str, is_probe: bool| {
        let mut run = run(id, &[id]);
        run.messages[0].message.attempts = attempts;
        run.name = topic.into();
        publishing.singly(publishing.open(run, is_probe, until)).await.fates.len()
    };
    for _ in 0..20 {
        assert_eq!(fates(9, 0, "t", false).await, 1, "giving up does not count");
        assert_eq!(fates(1, 2, "t", false).await, 1, "nor does what failed before");
    }
    for n in 0..20 {
        assert_eq!(fates(1, 0, "t", false).await, usize::from(n < 8));
    }
    assert_eq!(fates(2, 0, "t", false).await, 0);
    assert_eq!(fates(2, 0, "u", false).await, 1, "another topic goes on");
    // A probe is published, and those of its topic go on.
    assert_eq!(fates(3, 0, "t", true).await, 1);
    assert_eq!(fates(2, 0, "t", false).await, 1);
    assert_eq!(published(&publishing), [2, 3, 2]);
}
