//! A diagram of calls: threads as rows over time, each call in brackets. Pure.

use crate::operation::Interval;
use std::collections::BTreeMap;

/// The largest number of columns of a diagram.
const COLUMNS: usize = 100;

/// The largest number of blocks, one below the other; of more, those in the middle are left out.
const BLOCKS: usize = 6;

/// The largest number of characters of a call's text, and of its time.
const TEXT: usize = 60;

/// A call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) thread: u16,
    /// Calls that overlap are drawn one above the other.
    pub(crate) interval: Interval,
    pub(crate) text: String,
    pub(crate) time: String,
}

/// The beginning of a call, or its end.
#[derive(Clone, Copy)]
enum Moment {
    Begins(usize),
    Ends(usize),
}

/// A call in its place.
struct Placed {
    call: usize,
    from: usize,
    to: usize,
}

/// A time below the rows, in its place.
struct Label {
    at: usize,
    time: String,
}

/// Draws the calls, in the order of their invocation; those of one thread in its order.
pub(crate) fn diagram(calls: &[Call]) -> String {
    let margin = calls.iter().map(|call| name(call).len() + 2).max().unwrap_or(0);
    let blocks = blocks(calls, COLUMNS - margin);
    let mut text = String::new();
    let left_out = blocks.len().saturating_sub(BLOCKS);
    for (i, block) in blocks.iter().enumerate() {
        // The cause is at the end.
        if (1..=left_out).contains(&i) {
            if i == 1 {
                let count: usize = blocks[1..=left_out].iter().map(Vec::len).sum();
                text.push_str(&format!("({count} more calls)\n"));
            }
            continue;
        }
        draw(calls, block, margin, COLUMNS - margin, &mut text);
    }
    text
}

fn name(call: &Call) -> String {
    format!("thread {}", call.thread)
}

/// Returns the beginnings and ends in their order. Calls that have a stamp in common overlap, but
/// for those of one thread.
fn moments(calls: &[Call], block: &[usize]) -> Vec<Moment> {
    let begin = |&i: &usize| (calls[i].interval.invoked, false, i);
    let end = |&i: &usize| (calls[i].interval.returned, true, i);
    let mut sorted: Vec<_> = block.iter().map(begin).chain(block.iter().map(end)).collect();
    sorted.sort_unstable();
    let mut moments = Vec::with_capacity(sorted.len());
    let mut open: Vec<usize> = Vec::new();
    for (_, is_end, i) in sorted {
        if is_end {
            // It may have ended already, for the next one of its thread.
            if let Some(at) = open.iter().position(|&other| other == i) {
                open.remove(at);
                moments.push(Moment::Ends(i));
            }
            continue;
        }
        let before = |&other: &usize| calls[other].thread == calls[i].thread && !is_endless(&calls[other]);
        if let Some(at) = open.iter().position(before) {
            moments.push(Moment::Ends(open.remove(at)));
        }
        open.push(i);
        moments.push(Moment::Begins(i));
    }
    moments
}

fn is_endless(call: &Call) -> bool {
    call.interval.returned == Interval::NEVER
}

/// Returns the parts of the calls that fit between the margins. A part ends where no call is under
/// way, if possible.
fn blocks(calls: &[Call], room: usize) -> Vec<Vec<usize>> {
    let mut blocks = Vec::new();
    let mut block: Vec<usize> = Vec::new();
    for episode in episodes(calls) {
        let longer = [&block[..], &episode].concat();
        if width(calls, &longer) <= room {
            block = longer;
            continue;
        }
        if !block.is_empty() {
            blocks.push(std::mem::take(&mut block));
        }
        for call in episode {
            block.push(call);
            if block.len() > 1 && width(calls, &block) > room {
                block.pop();
                blocks.push(std::mem::replace(&mut block, vec![call]));
            }
        }
    }
    blocks.extend((!block.is_empty()).then_some(block));
    blocks
}

/// Returns the calls in parts between which none is under way.
fn episodes(calls: &[Call]) -> Vec<Vec<usize>> {
    let (mut episodes, mut open) = (vec![Vec::new()], 0_usize);
    let all: Vec<_> = (0..calls.len()).collect();
    for moment in moments(calls, &all) {
        match moment {
            Moment::Begins(i) => {
                open += usize::from(!is_endless(&calls[i]));
                if let Some(episode) = episodes.last_mut() {
                    episode.push(i);
                }
            }
            Moment::Ends(i) => {
                open -= usize::from(!is_endless(&calls[i]));
                if open == 0 {
                    episodes.push(Vec::new());
                }
            }
        }
    }
    episodes.retain(|episode| !episode.is_empty());
    episodes
}

fn width(calls: &[Call], block: &[usize]) -> usize {
    let (placed, labels) = place(calls, block);
    let calls_end = placed.iter().map(|placed| placed.to + 1).max();
    let labels_end = labels.iter().map(|label| label.at + label.time.chars().count()).max();
    calls_end.max(labels_end).unwrap_or(0)
}

/// Gives each call the least room that its text and the order of all beginnings and ends need.
fn place(calls: &[Call], block: &[usize]) -> (Vec<Placed>, Vec<Label>) {
    let mut placed: Vec<Placed> = Vec::new();
    let mut labels: Vec<Label> = Vec::new();
    let (mut next, mut open, mut labelled) = (0, 0_usize, 0);
    for moment in moments(calls, block) {
        match moment {
            Moment::Begins(call) => {
                // After a pause there is a gap.
                let mut from = if open == 0 && next > 0 { next + 1 } else { next };
                let time = cut(&calls[call].time);
                if labels.last().is_none_or(|label| label.time != time) {
                    from = from.max(labelled);
                    labelled = from + time.chars().count() + 2;
                    labels.push(Label { at: from, time });
                }
                placed.push(Placed { call, from, to: from + cut(&calls[call].text).chars().count() + 1 });
                (next, open) = (from + 1, open + 1);
            }
            Moment::Ends(call) => {
                if let Some(placed) = placed.iter_mut().find(|placed| placed.call == call) {
                    placed.to = placed.to.max(next);
                    // The next one of the same thread does not touch it.
                    next = placed.to + 2;
                }
                open = open.saturating_sub(1);
            }
        }
    }
    (placed, labels)
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into(),
    }
}

fn draw(calls: &[Call], block: &[usize], margin: usize, room: usize, text: &mut String) {
    let (placed, labels) = place(calls, block);
    // A call that gave no answer has a row of its own, as its thread may have gone on.
    let mut rows: BTreeMap<(u16, usize), Vec<char>> = BTreeMap::new();
    for Placed { call, from, to } in placed {
        let own_row = if is_endless(&calls[call]) { call + 1 } else { 0 };
        let row = rows.entry((calls[call].thread, own_row)).or_default();
        let end = if is_endless(&calls[call]) { '…' } else { ']' };
        write(row, from, "[");
        write(row, from + 1, &cut(&calls[call].text));
        write(row, to, &end.to_string());
    }
    let mut line = |name: &str, row: &[char]| {
        let row: String = row.iter().take(room).collect();
        let line = format!("{name:<margin$}{row}");
        text.push_str(line.trim_end());
        text.push('\n');
    };
    for ((thread, _), row) in &rows {
        line(&format!("thread {thread}"), row);
    }
    let mut times = Vec::new();
    labels.iter().for_each(|label| write(&mut times, label.at, &label.time));
    line("time", &times);
}

fn write(row: &mut Vec<char>, at: usize, text: &str) {
    for (i, letter) in text.chars().enumerate() {
        if row.len() <= at + i {
            row.resize(at + i + 1, ' ');
        }
        row[at + i] = letter;
    }
}
