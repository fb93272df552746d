//! The fate of each message, and whether it is allowed. Pure.

use std::time::Duration;

/// The two ways to use an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A consumer's id: claimed, handled, completed, acknowledged.
    Claim,
    /// An id that is marked on sight, by a caller that asks until it is told.
    Check,
}

/// The story of an id.
#[derive(Clone, Debug)]
pub struct Story {
    pub kind: Kind,
    /// Handlers that have begun.
    pub begun: u32,
    pub effects: u32,
    /// Processes that were killed while they had it in hand.
    pub deaths: u32,
    pub put_aside: Option<String>,
    /// The events, and their times: for the reader of a violation.
    pub events: Vec<(Duration, String)>,
}

impl Story {
    pub fn new(kind: Kind) -> Self {
        Story { kind, begun: 0, effects: 0, deaths: 0, put_aside: None, events: Vec::new() }
    }
}

/// The sums of all events.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub messages: u64,
    pub effects: u64,
    /// Effects beyond the first of an id, and how many there may be: one for each process that was
    /// killed between the effect and its completion.
    pub doubles: u64,
    pub doubles_allowed: u64,
    /// Ids without an effect, and those of them that may be: marked on sight, by a process that was
    /// killed before it was told so.
    pub lost: u64,
    pub lost_allowed: u64,
    pub put_aside: u64,
    /// The longest time without an effect, while messages were there.
    pub standstill: Duration,
    pub faults: u64,
    pub violations: Vec<String>,
}

/// The number of violations beyond which they are counted, and not reported.
const SAID_MAX: usize = 20;

impl Tally {
    pub fn violated(&mut self, what: String) {
        if self.violations.len() == SAID_MAX {
            self.violations.push("and more".to_owned());
        } else if self.violations.len() < SAID_MAX {
            self.violations.push(what);
        }
    }

    /// Judges an id of which nothing is delivered any more. Returns true if something was wrong,
    /// and is reported.
    pub fn judge(&mut self, id: u64, story: &Story, max_attempts: u32) -> bool {
        let before = self.violations.len();
        self.judge_story(id, story, max_attempts);
        let is_wrong = self.violations.len() > before;
        if is_wrong && let Some(last) = self.violations.last_mut() {
            *last += &format!("; {:?}", story.events);
        }
        is_wrong
    }

    fn judge_story(&mut self, id: u64, story: &Story, max_attempts: u32) {
        self.messages += 1;
        self.effects += u64::from(story.effects);
        self.doubles += u64::from(story.effects.saturating_sub(1));
        match story.kind {
            Kind::Claim => {
                self.doubles_allowed += u64::from(story.deaths);
                if story.effects > 1 + story.deaths {
                    self.violated(format!("{id}: {} effects, and {} deaths", story.effects, story.deaths));
                }
                if story.effects == 0 && story.put_aside.is_none() {
                    self.lost += 1;
                    self.violated(format!("{id}: lost: acknowledged, and not handled"));
                }
            }
            Kind::Check => {
                if story.effects > 1 {
                    self.violated(format!("{id}: fresh {} times", story.effects));
                }
                if story.effects == 0 {
                    self.lost += 1;
                    self.lost_allowed += u64::from(story.deaths > 0);
                    if story.deaths == 0 {
                        self.violated(format!("{id}: lost: a duplicate, and fresh for nobody"));
                    }
                }
            }
        }
        if let Some(why) = &story.put_aside {
            self.put_aside += 1;
            if story.begun < max_attempts {
                self.violated(format!("{id}: put aside after {} attempts: {why}", story.begun));
            }
        }
    }

    pub fn stands_still(&mut self, since: Duration, most: Duration) {
        if since > most && self.standstill <= most {
            self.violated(format!("no effect for {since:?}"));
        }
        self.standstill = self.standstill.max(since);
    }

    pub fn heading() -> String {
        format!(
            "{:>10} {:>9} {:>9} {:>8} {:>8} {:>6} {:>8} {:>6} {:>11} {:>7}",
            "backend", "messages", "effects", "doubles", "allowed", "lost", "allowed", "aside", "standstill", "faults"
        )
    }

    pub fn line(&self, backend: &str) -> String {
        format!(
            "{backend:>10} {:>9} {:>9} {:>8} {:>8} {:>6} {:>8} {:>6} {:>9.1} s {:>7}",
            self.messages,
            self.effects,
            self.doubles,
            self.doubles_allowed,
            self.lost,
            self.lost_allowed,
            self.put_aside,
            self.standstill.as_secs_f64(),
            self.faults
        )
    }
}

#[test]
fn what_is_lost_or_too_much_is_said() {
    let said = |story: Story| {
        let mut tally = Tally::default();
        tally.judge(7, &story, 5);
        tally.violations.join("; ")
    };
    let story = |kind, effects, deaths| Story { effects, deaths, begun: 1, ..Story::new(kind) };
    for fine in [
        story(Kind::Claim, 1, 0),
        story(Kind::Claim, 2, 1),
        story(Kind::Check, 1, 0),
        story(Kind::Check, 0, 1),
        Story { put_aside: Some("failed".to_owned()), begun: 5, ..Story::new(Kind::Claim) },
    ] {
        assert_eq!(said(fine.clone()), "", "{fine:?}");
    }
    for (wrong, says) in [
        (story(Kind::Claim, 2, 0), "2 effects"),
        (story(Kind::Claim, 0, 3), "lost"),
        (story(Kind::Check, 2, 1), "fresh 2 times"),
        (story(Kind::Check, 0, 0), "lost"),
        (Story { put_aside: Some("delivered".to_owned()), ..story(Kind::Claim, 1, 0) }, "after 1 attempts"),
    ] {
        assert!(said(wrong.clone()).contains(says), "{wrong:?}");
    }
}
