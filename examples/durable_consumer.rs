//! A consumer that loses no message and, but for the moment between the work and its mark, handles
//! each once: claim, work, complete, flush, acknowledge. A message that fails comes again. Then the
//! consumer crashes, and the broker delivers every message again whose acknowledgement it did not
//! get.

use hapax::{Attempt, Dedup, JournalOptions};
use std::collections::VecDeque;

type Failure = Box<dyn std::error::Error>;

/// Handles what is new of a batch. Returns what may be acknowledged: only what is done, and on
/// disk.
pub fn consume<'m>(
    dedup: &Dedup,
    batch: &[&'m str],
    mut handle: impl FnMut(&str) -> Result<(), Failure>,
) -> Result<Vec<&'m str>, Failure> {
    let (mut attempts, mut claims, mut ended) = (Vec::new(), Vec::new(), Vec::new());
    let (mut handled, mut done) = (Vec::new(), Vec::new());
    dedup.claim_batch(batch, &mut attempts);
    for (&id, attempt) in batch.iter().zip(attempts) {
        match attempt {
            Attempt::Claimed(claim) => match handle(id) {
                Ok(()) => {
                    claims.push(claim);
                    handled.push(id);
                }
                Err(error) => eprintln!("{id} comes again: {error}"), // its claim is dropped here, which releases it
            },
            Attempt::Duplicate(_) => done.push(id),
            _ => {} // somebody is at it, perhaps this very batch: it comes again
        }
    }
    dedup.complete_batch(claims, &mut ended);
    // Whose lease was lost, somebody else is at.
    done.extend(handled.into_iter().zip(&ended).filter(|(_, ended)| ended.is_ok()).map(|(id, _)| id));
    dedup.journal()?.flush()?; // now it survives kill -9 and power cuts
    Ok(done)
}

/// A broker that delivers messages until they are acknowledged.
struct Broker {
    unacknowledged: VecDeque<&'static str>,
}

impl Broker {
    fn batch(&mut self) -> Vec<&'static str> {
        self.unacknowledged.iter().take(4).copied().collect()
    }

    fn acknowledge(&mut self, message: &str) {
        self.unacknowledged.retain(|other| *other != message);
    }
}

fn main() -> Result<(), Failure> {
    let directory = std::env::temp_dir().join(format!("hapax-durable-consumer-{}", std::process::id()));
    let open = || Dedup::builder().journal(&directory, JournalOptions::new()).build();
    let mut broker = Broker { unacknowledged: ["m-1", "m-2", "m-1", "m-3", "m-4", "m-2", "m-5"].into() };
    let (mut handled, mut failures) = (Vec::new(), 1);
    let mut handle = |id: &str| {
        if id == "m-2" && failures > 0 {
            failures -= 1;
            return Err("the other side is down".into());
        }
        handled.push(id.to_owned());
        Ok(())
    };

    let batch = broker.batch();
    let done = consume(&open()?, &batch, &mut handle)?;
    println!("crashes when {done:?} are done, before the broker has heard of it");

    let dedup = open()?;
    while !broker.unacknowledged.is_empty() {
        let batch = broker.batch();
        for done in consume(&dedup, &batch, &mut handle)? {
            broker.acknowledge(done);
        }
    }
    println!("handled {handled:?}");
    assert_eq!(handled, ["m-1", "m-3", "m-2", "m-4", "m-5"]);
    std::fs::remove_dir_all(directory)?;
    Ok(())
}
