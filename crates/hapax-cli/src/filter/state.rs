//! `--state`: records in the journal, as one, which ids were printed, and how far each input was.
//! Output that is unread in a pipe counts as not printed.
//!
//! A run that is ended at the worst moment repeats lines, and loses none:
//!
//! - A kill between print and record: the next run prints that batch again. Half a line is cut off
//!   at the recorded length, or behind the last whole line.
//! - A kill before the first line: the output's identity is durable before it.
//! - A reader that goes: `FIONREAD` says how much it has not taken, and that is not recorded.
//! - A slow reader: up to 64 batches wait, then the command does.
//! - The end of the input: the command waits until the pipe is empty, or nobody reads it.
//! - SIGINT, SIGTERM: the batch under way is printed whole, and a pipe's reader has 2 s to take
//!   what is in it. A second signal ends the command at once.
//! - A full disk: the error names it, and the next run goes on from the journal.
//! - An input that was replaced, cut short or renamed: device, inode and the hash of its first 64
//!   KiB tell.

use super::printing::output::{Kind, Output};
use super::source::checkpoint::{Checkpoint, RUNS_MAX};
use super::source::parse::Batch;
use super::verdicts::check::Time;
use crate::error::CommandError;
use hapax::{Dedup, JournalHandle, Prepared, Timestamp, Verdict};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

/// The state for the next run.
pub struct State {
    dedup: Dedup,
    time: Time,
    /// True if duplicates are remembered, too.
    refreshes: bool,
    slots: Slots,
    /// The state of the output, up to the last record.
    tail: Tail,
    /// A header that the output has, or will have, if it is not recorded yet.
    header: Option<Vec<u8>>,
    /// The batches that were written and not yet taken by the output's reader, each with where it
    /// ends in the output.
    pending: VecDeque<(u64, Printed)>,
}

/// The most batches that wait: more than a pipe holds, if each has something to print; a limit on
/// memory otherwise.
const PENDING_MAX: usize = 64;

/// The state of an output, and of the run that has written to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tail {
    /// The device and the inode, if it is an ordinary file.
    file: Option<(u64, u64)>,
    /// The length up to which it is known to be ours.
    length: u64,
    /// True if the run has not come to an end: there may be more output of ours.
    open: bool,
    /// True if the header was printed.
    pub header: bool,
    run: u64,
    pub latest_nanos: u64,
}

/// A batch that was written.
struct Printed {
    checked: Checked,
    places: Vec<Checkpoint>,
    tail: Tail,
    header: Option<Vec<u8>>,
}

/// Ids of a batch that are to be remembered.
#[derive(Default)]
struct Checked {
    ids: Vec<(Prepared, Verdict)>,
    /// The ends of runs of ids that were checked at one time, and that time.
    runs: Vec<(usize, Timestamp)>,
}

const OUTPUT: &str = "output";
const HEADER: &str = "header:";
/// The bytes of a part of a header, with one that says if another part follows: a position of the
/// journal has 64 KiB at most.
const HEADER_PART_BYTES: usize = 64_000;
const INPUT: &str = "input/";

/// The inputs whose places are remembered, by name. A journal remembers at most 65,536 values, and
/// log files come and go: a new one takes the slot of the one that was seen longest ago.
struct Slots {
    by_input: HashMap<String, (usize, u64)>,
    max: usize,
}

const SLOTS_MAX: usize = 60_000;

impl Slots {
    /// Returns the slot of an input, which this run has seen.
    fn of(&mut self, input: &str, run: u64) -> usize {
        if let Some((slot, seen)) = self.by_input.get_mut(input) {
            *seen = run;
            return *slot;
        }
        let mut slot = self.by_input.len();
        if slot >= self.max {
            let oldest = self.by_input.iter().min_by_key(|(_, (slot, seen))| (*seen, *slot));
            let (name, oldest) = oldest.map(|(name, (slot, _))| (name.clone(), *slot)).expect("there are slots");
            self.by_input.remove(&name);
            slot = oldest;
        }
        self.by_input.insert(input.to_string(), (slot, run));
        slot
    }
}

/// The record of earlier runs in a state directory.
pub struct Earlier {
    pub places: HashMap<String, Checkpoint>,
    tail: Tail,
    /// The header that was printed last.
    pub header: Option<Vec<u8>>,
}

impl Earlier {
    /// Reads the record from a journal; an empty one if there is none.
    pub fn of(dedup: &Dedup) -> Result<Self, CommandError> {
        let mut earlier = Earlier { places: HashMap::new(), tail: Tail::default(), header: None };
        let Ok(journal) = dedup.journal() else { return Ok(earlier) };
        let mut header = BTreeMap::new();
        for (source, position) in journal.positions().map_err(hapax::Error::from)? {
            let name = String::from_utf8_lossy(&source);
            if name == OUTPUT {
                earlier.tail = parsed_tail(&position)?;
            } else if let Some(number) = name.strip_prefix(HEADER).and_then(|number| number.parse::<usize>().ok()) {
                header.insert(number, position);
            } else if name.starts_with(INPUT) {
                let place = place(&name, &position)?;
                earlier.places.insert(place.input.clone(), place);
            }
        }
        earlier.header = whole_header(header.into_values());
        Ok(earlier)
    }

    /// Returns the number of the run that begins.
    pub fn run(&self) -> u64 {
        self.tail.run + 1
    }

    pub fn latest(&self) -> Timestamp {
        Timestamp::from_nanos(self.tail.latest_nanos)
    }
}

/// Divides a header into positions, each of which says first if another one follows: a longer
/// header may have been recorded before.
fn header_parts(header: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let parts = header.chunks(HEADER_PART_BYTES);
    let last = parts.len().saturating_sub(1);
    parts.enumerate().map(move |(number, part)| [&[u8::from(number < last)], part].concat())
}

/// Returns the header that was divided into these positions; none if there are none.
fn whole_header(mut parts: impl Iterator<Item = Vec<u8>>) -> Option<Vec<u8>> {
    let mut header = Vec::new();
    loop {
        let part = parts.next()?;
        let (follows, part) = part.split_first()?;
        header.extend_from_slice(part);
        if *follows == 0 {
            return Some(header);
        }
    }
}

/// Parses the place of an input, as a run has recorded it.
pub fn place(name: &str, position: &[u8]) -> Result<Checkpoint, CommandError> {
    let place: Checkpoint = parsed(name, position)?;
    if place.is_possible() { Ok(place) } else { Err(impossible(name)) }
}

fn parsed_tail(position: &[u8]) -> Result<Tail, CommandError> {
    let tail: Tail = parsed(OUTPUT, position)?;
    let is_possible = tail.run < RUNS_MAX && tail.length <= i64::MAX as u64;
    if is_possible { Ok(tail) } else { Err(impossible(OUTPUT)) }
}

fn impossible(name: &str) -> CommandError {
    CommandError::Io(format!(
        "--state: its record of `{name}` has numbers that no run has written; begin another directory"
    ))
}

fn parsed<'a, T: Deserialize<'a>>(name: &str, position: &'a [u8]) -> Result<T, CommandError> {
    serde_json::from_slice(position).map_err(|error| {
        CommandError::Io(format!(
            "--state: its record of `{name}` is from another program, or another version of this one: {error}"
        ))
    })
}

fn written(record: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(record).expect("numbers and text have a form in JSON")
}

/// The time that the reader of a pipe has after a signal to take what is in it.
const GRACE: Duration = Duration::from_secs(2);

impl State {
    /// Mends the output's end, and records the output's identity, before the first line is printed.
    pub fn begin(
        dedup: Dedup,
        time: Time,
        refreshes: bool,
        earlier: &Earlier,
        output: &mut Output,
    ) -> Result<Self, CommandError> {
        let file = if let Kind::File(identity) = output.kind() { Some(identity) } else { None };
        let Tail { length, open, header, .. } = earlier.tail;
        let is_same = file.is_some() && earlier.tail.file == file;
        if file.is_some() {
            output.mend_end((is_same && open).then_some(length)).map_err(CommandError::output)?;
        }
        let slots = earlier.places.values().map(|place| (place.input.clone(), (place.slot, place.run))).collect();
        let mut tail = Tail { file, length: 0, open: true, header: false, run: earlier.run(), ..earlier.tail };
        if file.is_some() {
            tail.length = output.position_at_end().map_err(CommandError::output)?;
            // A file that was cut short, or emptied, counts as a new one.
            tail.header = is_same && header && tail.length >= length;
        }
        let slots = Slots { by_input: slots, max: SLOTS_MAX };
        let state = State { dedup, time, refreshes, slots, tail, header: None, pending: VecDeque::new() };
        if file.is_some() {
            state.record_tail()?;
            state.flush()?;
        }
        Ok(state)
    }

    /// Returns true if the header was printed on this output, by this run or by an earlier one.
    pub fn has_header(&self) -> bool {
        self.tail.header
    }

    /// Returns true if no output waits for a reader.
    pub fn is_settled(&self) -> bool {
        self.pending.is_empty()
    }

    /// Adds a batch that was written: it will be recorded once it has been taken. Waits while too
    /// many have not been taken.
    pub fn printed(
        &mut self,
        batch: &Batch,
        header: bool,
        output: &mut Output,
        asked: impl Fn() -> bool,
    ) -> Result<(), CommandError> {
        if self.tail.file.is_some() {
            self.tail.length = output.position().map_err(CommandError::output)?;
        }
        self.tail.header |= header;
        if let Some((_, header)) = &batch.header {
            self.header = Some(header.clone());
        }
        let header = if header { self.header.take() } else { None };
        if let Some((_, at)) = batch.runs.last() {
            self.tail.latest_nanos = self.tail.latest_nanos.max(at.as_nanos());
        }
        let mut places: Vec<_> = std::iter::once(&batch.place).chain(&batch.others).cloned().collect();
        for place in &mut places {
            place.slot = self.slots.of(&place.input, self.tail.run);
        }
        let checked = Checked::of(batch, self.refreshes);
        self.pending.push_back((output.written(), Printed { checked, places, tail: self.tail, header }));
        self.settle(output)?;
        self.wait(output, asked, PENDING_MAX - 1)
    }

    /// Records the batches that have been taken.
    pub fn settle(&mut self, output: &Output) -> Result<(), CommandError> {
        let taken = output.taken();
        while let Some((end, printed)) = self.pending.front()
            && *end <= taken
        {
            self.record(printed)?;
            self.pending.pop_front();
        }
        Ok(())
    }

    /// Waits until no more than `most` batches have not been taken, or the reader has gone; after a
    /// signal no longer than the grace time.
    fn wait(&mut self, output: &Output, asked: impl Fn() -> bool, most: usize) -> Result<(), CommandError> {
        let mut pause = Duration::from_micros(500);
        let mut until = None;
        while self.pending.len() > most {
            let is_gone = output.wait(pause);
            self.settle(output)?;
            if asked() && Instant::now() > *until.get_or_insert_with(|| Instant::now() + GRACE) || is_gone {
                break;
            }
            pause = (pause * 2).min(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Ends the run after all is written: records what the reader takes of it, and that the run has
    /// ended.
    pub fn end(mut self, output: &Output, asked: impl Fn() -> bool) -> Result<(), CommandError> {
        self.settle(output)?;
        self.wait(output, asked, 0)?;
        // Output that is not recorded by now was never taken.
        self.tail.open = false;
        if self.tail.file.is_some() {
            self.record_tail()?;
        }
        self.flush()
    }

    fn record(&self, printed: &Printed) -> Result<(), CommandError> {
        let Printed { checked: Checked { ids, runs }, places, tail, header } = printed;
        let appended = self.journal()?.append(|appending| {
            match self.time {
                Time::Still => appending.accepted_at(ids.iter().copied(), Timestamp::default()),
                Time::Arrival => appending.accepted(ids.iter().copied()),
                Time::Event => {
                    let mut start = 0;
                    for &(end, at) in runs {
                        appending.accepted_at(ids[start..end].iter().copied(), at);
                        start = end;
                    }
                    // Before the first event that is not refused there is no time.
                    let latest = runs.last().filter(|(_, at)| *at > Timestamp::default());
                    latest.into_iter().for_each(|(_, at)| appending.time(*at));
                }
            }
            for place in places {
                appending.position(format!("{INPUT}{}", place.slot), written(place));
            }
            appending.position(OUTPUT, written(tail));
            for (number, part) in header.iter().flat_map(|header| header_parts(header)).enumerate() {
                appending.position(format!("{HEADER}{number}"), part);
            }
        });
        appended.map_err(|error| hapax::Error::from(error).into())
    }

    fn record_tail(&self) -> Result<(), CommandError> {
        let appended = self.journal()?.append(|appending| appending.position(OUTPUT, written(&self.tail)));
        appended.map_err(|error| hapax::Error::from(error).into())
    }

    fn journal(&self) -> Result<JournalHandle<'_>, CommandError> {
        self.dedup.journal().map_err(|error| hapax::Error::from(error).into())
    }

    fn flush(&self) -> Result<(), CommandError> {
        self.journal()?.flush().map_err(|error| hapax::Error::from(error).into())
    }
}

impl Checked {
    /// Returns the ids of a batch to remember: fresh ones, and duplicates if they extend a stay.
    fn of(batch: &Batch, refreshes: bool) -> Self {
        let mut remembered = Checked::default();
        let mut checked = batch.ids.iter().copied().zip(batch.verdicts.iter().copied());
        let is_wanted = |(_, verdict): &(Prepared, Verdict)| refreshes || !verdict.is_duplicate();
        let mut start = 0;
        for &(end, at) in &batch.runs {
            remembered.ids.extend(checked.by_ref().take(end - start).filter(is_wanted));
            remembered.runs.push((remembered.ids.len(), at));
            start = end;
        }
        // Without times of events there are no runs.
        remembered.ids.extend(checked.filter(is_wanted));
        remembered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_run_has_recorded_is_refused() {
        let written_by_a_run = Checkpoint { offset: 7, unended: 2, lines: 1, ..Checkpoint::default() };
        assert!(place("input/0", &written(&written_by_a_run)).is_ok());
        let span = |bytes| crate::filter::source::checkpoint::Span { bytes, hash: 1 };
        for wrong in [
            Checkpoint { offset: u64::MAX, ..Checkpoint::default() },
            Checkpoint { lines: u64::MAX, ..Checkpoint::default() },
            Checkpoint { run: u64::MAX, ..Checkpoint::default() },
            Checkpoint { offset: 1, unended: 2, lines: 1, ..Checkpoint::default() },
            Checkpoint { offset: 2, unended: 2, lines: 0, ..Checkpoint::default() },
            Checkpoint { beginning: span(u64::MAX), ..Checkpoint::default() },
            Checkpoint { first: span(2), beginning: span(1), ..Checkpoint::default() },
        ] {
            let failure = place("input/0", &written(&wrong)).unwrap_err();
            assert!(failure.message().is_some_and(|text| text.contains("no run has written")), "{wrong:?}");
        }
        assert!(parsed_tail(&written(&Tail { run: u64::MAX, ..Tail::default() })).is_err());
        assert!(parsed_tail(&written(&Tail { run: 5, length: 9, ..Tail::default() })).is_ok());
    }

    #[test]
    fn the_input_that_was_seen_longest_ago_gives_its_slot_to_a_new_one() {
        let mut slots = Slots { by_input: HashMap::new(), max: 3 };
        assert_eq!(["a", "b", "c", "a"].map(|input| slots.of(input, 1)), [0, 1, 2, 0]);
        assert_eq!(["c", "a"].map(|input| slots.of(input, 2)), [2, 0]);
        assert_eq!(slots.of("d", 3), 1);
        assert_eq!((slots.of("c", 3), slots.of("b", 3)), (2, 0));
        assert_eq!(slots.by_input.len(), 3);
    }
}
