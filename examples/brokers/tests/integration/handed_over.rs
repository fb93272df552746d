//! The judge of consumers whose memory follows their partitions. Pure.
//!
//! It reads the ledger: a line for each handling, `id token`, and between them what the group has
//! committed, `committed partition offset`, appended by an observer when the broker had said so.
//! What is committed was handled and published. So whoever handles such an id after that line has
//! not got the memory, unless it is an owner that was paused while it handled, and does not know
//! yet that it is fenced.

use std::collections::BTreeMap;

/// The place of an id's first message in the log.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub partition: i32,
    pub offset: i64,
}

/// The effects that the ledger shows.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// The ids that nobody has handled.
    pub missing: Vec<String>,
    /// The ids that were handled after they had been committed, each time.
    pub forgotten: Vec<String>,
    /// The number of handlings by an owner after a later one has handled something.
    pub late: usize,
    /// The number of handlings beyond one for each id.
    pub more: usize,
    /// The number of owners of all partitions that have handled something.
    pub owners: usize,
}

pub fn judge(ledger: &str, sent: &BTreeMap<String, Sent>) -> Judged {
    let mut judged = Judged::default();
    let mut committed: BTreeMap<i32, i64> = BTreeMap::new();
    let mut epochs: BTreeMap<i32, u64> = BTreeMap::new();
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    let mut owners = std::collections::BTreeSet::new();
    for line in ledger.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["committed", partition, offset] => {
                committed.insert(partition.parse().expect("a partition"), offset.parse().expect("an offset"));
            }
            [id, token] => {
                let Sent { partition, offset } = *sent.get(id).unwrap_or_else(|| panic!("nobody has sent {id}"));
                let token: u64 = token.parse().expect("a token");
                owners.insert((partition, token));
                *times.entry(id).or_default() += 1;
                let latest = epochs.entry(partition).or_default();
                if token < *latest {
                    judged.late += 1;
                } else {
                    *latest = token;
                    if committed.get(&partition).is_some_and(|committed| offset < *committed) {
                        judged.forgotten.push(id.to_owned());
                    }
                }
            }
            _ => panic!("not a line of a ledger: {line:?}"),
        }
    }
    judged.missing = sent.keys().filter(|id| !times.contains_key(id.as_str())).cloned().collect();
    judged.more = times.values().map(|times| times - 1).sum();
    judged.owners = owners.len();
    judged
}

#[test]
fn each_flaw_shows_in_the_ledger() {
    let sent = |partition, offset| Sent { partition, offset };
    let sent = [("a", sent(0, 0)), ("b", sent(0, 1)), ("c", sent(1, 0))];
    let sent: BTreeMap<String, Sent> = sent.into_iter().map(|(id, sent)| (id.to_owned(), sent)).collect();
    let judge = |lines: &[&str]| judge(&lines.join("\n"), &sent);
    let right = judge(&["a 1", "b 1", "c 1", "committed 0 1", "b 2", "committed 0 2"]);
    assert_eq!(right, Judged { more: 1, owners: 3, ..Judged::default() }, "b was not committed when it came again");
    assert_eq!(judge(&["a 1", "c 1"]).missing, ["b"]);
    assert_eq!(judge(&["a 1", "b 1", "c 1", "committed 0 1", "a 2"]).forgotten, ["a"]);
    let late = judge(&["a 1", "a 2", "committed 0 1", "c 1", "b 1"]);
    assert_eq!((late.late, late.forgotten.len()), (1, 0), "b was handled by the first owner of its partition");
}
