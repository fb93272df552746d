//! A consumer that loses no message and, but for the moment between the work and its mark, handles each once: claim, work, complete, flush, acknowledge. Then
//! it crashes, and the broker delivers everything again that it was not told about.

use hapax::{Attempt, Dedup, JournalOptions};
use std::collections::VecDeque;

/// Delivers what was not acknowledged until it is.
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

fn consume(
    dedup: &Dedup,
    broker: &mut Broker,
    handled: &mut Vec<&'static str>,
    crash: bool,
) -> Result<(), Box<dyn std::error::Error>> {
    let (mut attempts, mut ended) = (Vec::new(), Vec::new());
    loop {
        let batch = broker.batch();
        if batch.is_empty() {
            return Ok(());
        }
        dedup.claim_batch(&batch, &mut attempts);
        let (mut done, mut acknowledge) = (Vec::new(), Vec::new());
        for (message, attempt) in batch.into_iter().zip(attempts.drain(..)) {
            match attempt {
                Attempt::Claimed(claim) => {
                    handled.push(message);
                    done.push(claim);
                    acknowledge.push(message);
                }
                Attempt::Duplicate(_) => acknowledge.push(message),
                // By this very batch, or another instance: it comes again.
                _ => {}
            }
        }
        dedup.complete_batch(done, &mut ended);
        dedup.flush()?;
        if crash {
            return Ok(()); // before the broker has heard of it
        }
        acknowledge.into_iter().for_each(|message| broker.acknowledge(message));
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::temp_dir().join(format!("hapax-durable-consumer-{}", std::process::id()));
    let open = || Dedup::builder().journal(&directory, JournalOptions::new()).build();
    let mut broker = Broker { unacknowledged: ["m-1", "m-2", "m-1", "m-3", "m-4", "m-2", "m-5"].into() };
    let mut handled = Vec::new();
    consume(&open()?, &mut broker, &mut handled, true)?;
    println!("crashed after {handled:?}; {} messages come again", broker.unacknowledged.len());
    consume(&open()?, &mut broker, &mut handled, false)?;
    println!("handled {handled:?}");
    assert_eq!(handled, ["m-1", "m-2", "m-3", "m-4", "m-5"]);
    std::fs::remove_dir_all(directory)?;
    Ok(())
}
