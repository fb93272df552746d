//! The blocks of code in documents that consume, each with what the text beside it promises.

use super::Trouble::*;
use super::{Block, Drive, Trouble, consumers, judge, seeds, shown};
use std::path::Path;

/// The documents whose blocks are looked for.
const DOCUMENTS: [&str; 9] = [
    "README.md",
    "docs/guide/1-first-consumer.md",
    "docs/guide/2-durability.md",
    "docs/guide/3-sharing.md",
    "docs/guide/4-choosing.md",
    "docs/guide/5-inbox-and-outbox.md",
    "docs/patterns.md",
    "docs/scaling-out.md",
    "docs/migrating.md",
];

/// Code that consumes has one of these.
const CONSUMES: [&str; 15] = [
    ".check(",
    ".retain_fresh(",
    ".check_at(",
    ".check_batch(",
    ".claim(",
    ".claim_with(",
    "claim_batch",
    ".once(",
    "Consumer::builder",
    "LogConsumer::builder",
    "of_service(",
    "::once(",
    "inbox::once",
    "inbox::receive",
    "Worker::",
];

/// Blocks that are not driven here: document, heading, how the code is known, and why.
const EXCEPTIONS: &[(&str, &str, &str, &str)] = &[
    ("docs/guide/1-first-consumer.md", "Three decisions", "Key::new()", "it shows what an id may be"),
    (
        "docs/guide/1-first-consumer.md",
        "Ahead of time, and in batches",
        "retain_fresh",
        "it shows what is fresh, and does nothing",
    ),
    ("docs/guide/1-first-consumer.md", "Testing your consumer", "ManualClock", "it is a test"),
    ("docs/guide/2-durability.md", "Weeks of ids, and rebalances", "long_memory", "it shows what a restart knows"),
    ("docs/guide/3-sharing.md", "Sharing: several instances, one memory", "blue.claim", "it shows what two are told"),
    ("docs/patterns.md", "Processed table", "inbox::once", "hapax-postgres' crash.rs kills it at each step"),
    (
        "docs/guide/5-inbox-and-outbox.md",
        "Inbox and outbox in production",
        "inbox::once",
        "its calls are those that hapax-postgres' crash.rs kills at each step",
    ),
    ("docs/migrating.md", "From moka", "capacity(1_000_000)", "two verdicts, and no effect"),
    ("docs/migrating.md", "From DashMap, or a `HashMap` behind a lock", "seen.once", "it shows what `once` returns"),
];

const HERE: &str = "crates/hapax-stream/tests/integration/hostile/shown.rs";
const CONSUMERS: &str = "crates/hapax-stream/tests/integration/hostile/consumers.rs";
const EXAMPLES: &str = "tests/integration/examples/shown.rs";
const NAMED: &str = "examples/patterns/src/named_consumers.rs";
const SERVICES: &[&str] = &["billing", "mail"];

/// The troubles of code in one process, without a store.
const ALONE: &[Trouble] = &[Copies, Failing, WorkerDies, ProcessDies];
const ALL: &[Trouble] = &[Copies, Failing, WorkerDies, ProcessDies, Stumbles, AwayForSeconds, AwayForMinutes];

const WITHIN_A_LEASE: &str = "a store that is away for less than a lease repeats nothing";
const OF_A_CLAIM: &str =
    "a crash between work and completion, or a store that is away until the lease is over: done twice";

/// A block that claims: it loses nothing, and repeats what is not recorded in time.
fn claims(document: &'static str, heading: &'static str, shown: (&'static str, &'static str), drive: Drive) -> Block {
    Block {
        document,
        heading,
        shown,
        drive,
        services: SERVICES,
        instances: 2,
        troubles: ALL,
        says: &[],
        loses: &[],
        repeats: &[WorkerDies, ProcessDies, AwayForMinutes],
    }
}

fn blocks() -> Vec<Block> {
    [in_memory(), in_a_store(), of_consumers()].concat()
}

fn in_memory() -> Vec<Block> {
    let durability = "docs/guide/2-durability.md";
    vec![
        Block {
            instances: 1,
            troubles: ALONE,
            says: &["`claim`: the next worker gets it |", "a restart | forgets"],
            ..claims("README.md", "hapax", (HERE, "        match seen.claim(id)"), Drive::Each(1, shown::readme))
        },
        Block {
            says: &[
                "If the work then fails, or its worker dies, the message is lost",
                "It forgets when the process ends.",
            ],
            instances: 1,
            troubles: &[Copies, WorkerDies, ProcessDies],
            loses: &[WorkerDies],
            repeats: &[ProcessDies],
            ..claims(
                "docs/guide/1-first-consumer.md",
                "Five minutes to the first deduplicated consumer",
                (HERE, "        if dedup.check(id)"),
                Drive::Each(1, shown::first_part),
            )
        },
        Block {
            instances: 1,
            troubles: ALONE,
            says: &["Its memory is gone, so what it had handled is handled again."],
            repeats: &[WorkerDies, ProcessDies],
            ..claims(
                durability,
                "Claim, work, complete",
                (EXAMPLES, "/// Charges an order,"),
                Drive::Each(1, shown::charge_once),
            )
        },
        Block {
            instances: 1,
            troubles: ALONE,
            says: &["| after the work, before `flush` returned | the id is unknown: it is handled a second time |"],
            repeats: &[WorkerDies, ProcessDies],
            ..claims(
                durability,
                "A journal",
                ("examples/durable_consumer.rs", "/// Handles what is new"),
                Drive::Each(4, shown::batch_of_a_journal),
            )
        },
        Block {
            instances: 1,
            troubles: &[Copies, Failing, ProcessDies],
            says: &["| before the checkpoint is durable | its messages are unknown: they are handled again |"],
            repeats: &[ProcessDies],
            ..claims(
                durability,
                "A log that can be read again",
                ("examples/log_consumer.rs", "/// Handles what is new"),
                Drive::Runs(shown::log),
            )
        },
    ]
}

fn in_a_store() -> Vec<Block> {
    let (sharing, scaling, patterns) = ("docs/guide/3-sharing.md", "docs/scaling-out.md", "docs/patterns.md");
    let deliver = (EXAMPLES, "/// Handles a message,");
    vec![
        Block {
            says: &[
                "If blue had done the work before it crashed, and not recorded that, the work is done twice",
                "or its lease was lost, or the store away for as long: it comes again",
            ],
            ..claims(sharing, "In a consumer", deliver, Drive::Each(1, shown::deliver))
        },
        Block {
            // Its store is its own, and is never away.
            services: &["billing"],
            instances: 1,
            troubles: &[Copies, Failing, WorkerDies, ProcessDies, Stumbles],
            repeats: &[WorkerDies, ProcessDies],
            says: &["double work if its record was not written yet | double work |"],
            ..claims(
                scaling,
                "What to take",
                (EXAMPLES, "/// Handles what is new of a batch."),
                Drive::Each(4, shown::batch_of_an_owner),
            )
        },
        Block {
            says: &[
                "a process that is killed, a caller that goes, or a store that is away until the lease is over, after the effect",
            ],
            ..claims(patterns, "A function, once", (HERE, "    impl Bank {"), Drive::Each(1, shown::once))
        },
        Block {
            says: &["If it crashes after the work, or Redis is away until the lease is over, the work is done twice."],
            ..claims(
                "docs/migrating.md",
                "From `SET NX`",
                (HERE, "        match dedup.claim(id)"),
                Drive::Each(1, shown::instead_of_set_nx),
            )
        },
    ]
}

fn of_consumers() -> Vec<Block> {
    let (sharing, patterns) = ("docs/guide/3-sharing.md", "docs/patterns.md");
    let services = &["billing", "mail", "billing-retry"];
    vec![
        Block {
            services: &["billing"],
            says: &[WITHIN_A_LEASE],
            ..claims(
                sharing,
                "A whole consumer",
                (CONSUMERS, "        pub async fn consume<B"),
                Drive::Runs(consumers::whole_consumer),
            )
        },
        Block {
            services,
            says: &[WITHIN_A_LEASE, "what billing has done, mail has not"],
            ..claims(
                sharing,
                "A fan-out, a retry topic",
                (CONSUMERS, "    pub fn consumers<S"),
                Drive::Runs(consumers::fan_out),
            )
        },
        Block {
            services,
            says: &["as of a claim, for each service", "as of a claim, for each topic", OF_A_CLAIM],
            ..claims(
                patterns,
                "A fan-out, a retry topic",
                (NAMED, "pub fn of_service"),
                Drive::Runs(consumers::of_service),
            )
        },
    ]
}

fn text(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns lines without what stands before and behind them, and without `pub`.
fn trimmed(text: &str) -> String {
    let line = |line: &str| line.trim().trim_start_matches("pub ").to_owned() + "\n";
    text.lines().filter(|line| !line.trim().is_empty()).map(line).collect()
}

/// Returns the code of a block as it runs: up to the end of what begins there. Between its parts
/// stands a line that says that something is left out.
fn parts(shown: (&str, &str)) -> Vec<String> {
    let (file, begins) = shown;
    let text = text(file);
    let from = text.find(begins).unwrap_or_else(|| panic!("{file} has no {begins:?}"));
    let depth = begins.len() - begins.trim_start().len();
    let end = format!("\n{}}}\n", " ".repeat(depth));
    let to = text[from..].find(&end).unwrap_or_else(|| panic!("{file}: {begins:?} has no end"));
    text[from..from + to + end.len()].split("// …\n").map(trimmed).collect()
}

/// Returns each block of code in Rust: its heading, and its text.
fn code(text: &str) -> Vec<(String, String)> {
    let (mut found, mut heading, mut is_rust, mut is_code) =
        (Vec::<(String, String)>::new(), String::new(), false, false);
    for line in text.lines() {
        match line.strip_prefix("```") {
            Some(tag) if !is_code => {
                (is_code, is_rust) = (true, tag.starts_with("rust"));
                if is_rust {
                    found.push((heading.clone(), String::new()));
                }
            }
            Some(_) => is_code = false,
            None if is_code && is_rust => found.last_mut().expect("it has begun").1.extend([line, "\n"]),
            None if line.starts_with('#') && !is_code => heading = line.trim_start_matches(['#', ' ']).to_owned(),
            None => {}
        }
    }
    found
}

/// Returns true if a block of code is the one that is driven.
fn is_of(block: &Block, document: &str, heading: &str, code: &str) -> bool {
    let is_there = || parts(block.shown).iter().all(|part| trimmed(code).contains(part.as_str()));
    (block.document, block.heading) == (document, heading) && is_there()
}

#[test]
fn every_block_that_consumes_is_driven() {
    let (blocks, mut found, mut excused) = (blocks(), vec![0; blocks().len()], vec![0; EXCEPTIONS.len()]);
    for document in DOCUMENTS {
        for (heading, code) in
            code(&text(document)).into_iter().filter(|(_, code)| CONSUMES.iter().any(|call| code.contains(call)))
        {
            let driven: Vec<_> = (0..blocks.len()).filter(|&i| is_of(&blocks[i], document, &heading, &code)).collect();
            let is_excused = |&i: &usize| {
                let (of, under, has, _) = EXCEPTIONS[i];
                (of, under) == (document, &*heading) && code.contains(has)
            };
            let excuses: Vec<_> = (0..EXCEPTIONS.len()).filter(is_excused).collect();
            assert_eq!(driven.len() + excuses.len(), 1, "{document}, {heading:?}: drive it, or say why not:\n{code}");
            driven.into_iter().for_each(|i| found[i] += 1);
            excuses.into_iter().for_each(|i| excused[i] += 1);
        }
    }
    let lost = blocks
        .iter()
        .zip(found)
        .filter(|(_, found)| *found != 1)
        .map(|(block, _)| (block.document, block.heading, block.shown));
    assert_eq!(lost.collect::<Vec<_>>(), [], "the documents do not show this code");
    let lost = EXCEPTIONS.iter().zip(excused).filter(|(_, excused)| *excused != 1).map(|(exception, _)| exception);
    assert_eq!(lost.collect::<Vec<_>>(), Vec::<&(&str, &str, &str, &str)>::new());
}

#[test]
fn what_a_block_is_said_to_cost_is_in_its_document() {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for block in blocks() {
        let document = words(&text(block.document));
        for says in block.says {
            assert!(document.contains(&words(says)), "{} does not say {says:?}", block.document);
        }
        assert!(!block.says.is_empty(), "{}, {:?}: what does it cost?", block.document, block.heading);
    }
}

/// Judges blocks in all of their troubles, and says what was found.
fn judge_all(blocks: &[Block]) {
    let mut wrong = Vec::new();
    for block in blocks {
        for &trouble in block.troubles {
            match judge(block, trouble, seeds()) {
                Ok(found) => println!("{} | {} | {trouble:?} | {found:?}", block.document, block.heading),
                Err(error) => wrong.push(error),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn blocks_in_memory_lose_and_repeat_what_their_documents_say() {
    judge_all(&in_memory());
}

#[test]
fn blocks_over_a_store_lose_and_repeat_what_their_documents_say() {
    judge_all(&in_a_store());
}

#[test]
fn consumers_lose_and_repeat_what_their_documents_say() {
    judge_all(&of_consumers());
}
