//! Reads a recorded history: names become numbers, and lines operations.

use super::format::{Call, Clock, Name, Terms};
use crate::error::CommandError;
use hapax::Timestamp;
use hapax_testing::{Event, Interval, Operation};
use std::collections::HashMap;
use std::io::{BufRead, Read};

/// The longest line: an id may be long, but a file without line ends is no history.
const LINE_BYTES_MAX: usize = 1 << 20;

/// The largest number of calls: they take 64 bytes each, and twice that while they are checked.
const CALLS_MAX: usize = 50_000_000;

/// A history, as the checker takes it.
#[derive(Debug)]
pub struct History {
    pub terms: Terms,
    pub operations: Vec<Operation>,
    pub threads: Names,
    pub ids: Names,
}

/// Names, and the number of each in the order in which they came.
#[derive(Debug, Default)]
pub struct Names {
    numbers: HashMap<Name, u64>,
    names: Vec<Name>,
}

impl Names {
    fn number(&mut self, name: Name) -> u64 {
        *self.numbers.entry(name).or_insert_with_key(|name| {
            self.names.push(name.clone());
            self.names.len() as u64 - 1
        })
    }

    /// Returns the name of a number that was given.
    pub fn name(&self, number: u64) -> &str {
        &self.names[number as usize].0
    }
}

/// The last call of a thread, for the order of its lines.
#[derive(Clone, Copy)]
struct Last {
    line: usize,
    start: u64,
    /// The end, if it gave an answer.
    end: u64,
    batch: u32,
}

/// The reading of one history.
struct Reader<'a> {
    place: &'a str,
    history: History,
    fingerprints: HashMap<(u64, Name), u8>,
    given: HashMap<u64, u8>,
    last: HashMap<u64, Last>,
}

/// Reads a history from `place`, which errors name.
pub fn read(input: impl BufRead, place: &str) -> Result<History, CommandError> {
    let mut lines = Lines { input, number: 0, line: Vec::new() };
    let bad = |line: usize, reason: String| CommandError::Usage(format!("{place}:{line}: {reason}"));
    let io = |error: std::io::Error| CommandError::Usage(format!("{place}: {error}"));
    let Some(first) = lines.next().map_err(io)? else {
        return Err(CommandError::Usage(format!("{place} is empty; its first line has the terms: see docs/verify.md")));
    };
    let terms = Terms::read(first).map_err(|reason| bad(1, reason))?;
    let clock = terms.clock();
    let history = History { terms, operations: Vec::new(), threads: Names::default(), ids: Names::default() };
    let (fingerprints, given, last) = Default::default();
    let mut reader = Reader { place, history, fingerprints, given, last };
    loop {
        let number = lines.number + 1;
        let Some(line) = lines.next().map_err(io)? else { break };
        let is_cut = !line.ends_with(b"\n");
        match Call::read(line, clock) {
            Ok(call) => reader.add(call, number, clock).map_err(|reason| bad(number, reason))?,
            Err(reason) if is_cut => {
                let advice = "the last line has no end: if the recorder was killed, delete the line";
                return Err(bad(number, format!("{reason} ({advice})")));
            }
            Err(reason) => return Err(bad(number, reason)),
        }
    }
    Ok(reader.history)
}

/// The lines of an input, each of a limited length.
struct Lines<R> {
    input: R,
    number: usize,
    line: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    fn next(&mut self) -> std::io::Result<Option<&[u8]>> {
        self.line.clear();
        self.number += 1;
        let limit = LINE_BYTES_MAX as u64 + 1;
        self.input.by_ref().take(limit).read_until(b'\n', &mut self.line)?;
        if self.line.len() > LINE_BYTES_MAX {
            let reason = format!("line {} is longer than {LINE_BYTES_MAX} bytes", self.number);
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, reason));
        }
        Ok((!self.line.is_empty()).then_some(&self.line))
    }
}

impl Reader<'_> {
    fn add(&mut self, call: Call, line: usize, clock: Clock) -> Result<(), String> {
        if self.history.operations.len() == CALLS_MAX {
            return Err(format!("{} has more than {CALLS_MAX} calls: record fewer, or in pieces", self.place));
        }
        let (start, end) = (call.start.0, call.end.map(|end| end.0));
        let number = self.history.threads.number(call.thread);
        let thread = u16::try_from(number).map_err(|_| "more than 65,536 threads: name workers, not calls")?;
        self.in_order(number, Last { line, start, end: end.unwrap_or(start), batch: call.batch })?;
        let id = self.history.ids.number(call.id);
        let event = call.answer.event();
        let fingerprint = call.fingerprint.map_or(Ok(0), |name| self.fingerprint(id, name))?;
        // A call of a clock of the subject's own took effect at some time between start and end.
        let at = Timestamp::from_nanos(call.at.map_or(start, |at| at.0));
        let until = if clock == Clock::Own { Timestamp::from_nanos(end.unwrap_or(start)) } else { at };
        let returned = if event == Event::Unanswered { Interval::NEVER } else { end.unwrap_or(start) };
        self.history.operations.push(Operation {
            id,
            at,
            until,
            interval: Interval { invoked: start, returned },
            token: call.token,
            claim: call.claim,
            batch: call.batch,
            thread,
            event,
            fingerprint,
        });
        Ok(())
    }

    /// Refuses calls of one thread that overlap: it would be told of wrong answers that are none.
    fn in_order(&mut self, thread: u64, call: Last) -> Result<(), String> {
        let before = self.last.insert(thread, call);
        let Some(before) = before else { return Ok(()) };
        let is_one_batch = call.batch != 0 && call.batch == before.batch && call.start == before.start;
        if call.start >= before.end || is_one_batch {
            return Ok(());
        }
        let (name, Last { line, end, .. }) = (self.history.threads.name(thread), before);
        Err(format!(
            "the call of thread {name:?} starts at {}, before its call of line {line} ended, at {end}; a thread does one \
             thing after the other: give each task a name of its own",
            call.start
        ))
    }

    /// Returns the number of a fingerprint among those of the id, from 1.
    fn fingerprint(&mut self, id: u64, name: Name) -> Result<u8, String> {
        if let Some(&number) = self.fingerprints.get(&(id, name.clone())) {
            return Ok(number);
        }
        let given = self.given.entry(id).or_default();
        *given = given.checked_add(1).ok_or("more than 255 fingerprints of one id")?;
        self.fingerprints.insert((id, name), *given);
        Ok(*given)
    }
}
