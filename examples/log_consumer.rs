//! A consumer of a log that can be read again, as Kafka's or a file: check on sight, handle,
//! checkpoint, flush, commit. It takes no claim, loses no message, and after a crash handles again
//! only what came after the last checkpoint. Here a handler fails, then the consumer crashes.

use hapax::{Dedup, JournalOptions};

type Failure = Box<dyn std::error::Error>;

/// The name of the log among the positions.
const SOURCE: &str = "orders/3";

/// Handles what is new of a batch that begins at `offset`, and takes a checkpoint behind what is
/// done. Returns the offset to commit, and to go on from.
pub fn consume(
    dedup: &Dedup,
    offset: u64,
    batch: &[&str],
    mut handle: impl FnMut(&str) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    let mut verdicts = Vec::new();
    dedup.check_batch(batch, &mut verdicts);
    let mut new = batch.iter().zip(verdicts).enumerate().filter(|(_, (_, verdict))| verdict.is_fresh());
    let mut done = batch.len();
    for (i, (id, _)) in new.by_ref() {
        if let Err(error) = handle(id) {
            eprintln!("{id} comes again: {error}");
            // It was marked on sight, and so was what is new behind it: both come again.
            dedup.forget(id);
            for (_, (id, _)) in new {
                dedup.forget(id);
            }
            done = i;
            break;
        }
    }
    let next = offset + done as u64;
    dedup.journal()?.checkpoint([(SOURCE, next.to_be_bytes())])?;
    dedup.journal()?.flush()?; // now it survives kill -9 and power cuts
    Ok(next)
}

/// Returns the offset of the last checkpoint, from which a consumer goes on.
pub fn start(dedup: &Dedup) -> Result<u64, Failure> {
    let positions = dedup.journal()?.positions()?;
    let known = positions.iter().find(|(source, _)| source == SOURCE.as_bytes());
    Ok(known.map_or(Ok(0), |(_, position)| position[..].try_into().map(u64::from_be_bytes))?)
}

fn main() -> Result<(), Failure> {
    let directory = std::env::temp_dir().join(format!("hapax-log-consumer-{}", std::process::id()));
    let open = || Dedup::builder().journal(&directory, JournalOptions::new().checkpoints(true)).build();
    let log = ["m-1", "m-2", "m-1", "m-3", "m-4", "m-2", "m-5", "m-6"];
    let batch = |offset: u64| &log[offset as usize..log.len().min(offset as usize + 3)];
    let (mut handled, mut failures) = (Vec::new(), 1);
    let mut handle = |id: &str| {
        if id == "m-3" && failures > 0 {
            failures -= 1;
            return Err("the other side is down".into());
        }
        handled.push(id.to_owned());
        Ok(())
    };

    let dedup = open()?;
    let mut offset = start(&dedup)?;
    for _ in 0..3 {
        offset = consume(&dedup, offset, batch(offset), &mut handle)?;
    }
    // The next batch is marked and handled, and there is no checkpoint any more.
    let _ = dedup.check("m-5");
    println!("crashes behind the checkpoint at {offset}");
    drop(dedup);

    let dedup = open()?;
    let mut offset = start(&dedup)?;
    while offset < log.len() as u64 {
        offset = consume(&dedup, offset, batch(offset), &mut handle)?;
    }
    println!("handled {handled:?}");
    assert_eq!(handled, ["m-1", "m-2", "m-3", "m-4", "m-5", "m-6"]);
    drop(dedup);
    std::fs::remove_dir_all(directory)?;
    Ok(())
}
