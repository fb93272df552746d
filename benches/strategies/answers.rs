//! What a strategy answered where the stream says otherwise.

use crate::stream::{Ids, Stream};
use std::collections::HashSet;
use std::ops::Range;

/// The wrong answers of one thread, by the places of their ids. Seldom any, so that the clock does not notice.
#[derive(Default)]
pub struct WrongAnswers {
    /// New ids that were called duplicates.
    pub invented: Vec<usize>,
    /// Duplicates that were called fresh.
    pub missed: Vec<usize>,
}

impl WrongAnswers {
    #[inline(always)]
    pub fn compare(&mut self, place: usize, is_fresh: bool, answer: bool) {
        if is_fresh != answer {
            self.note(place, is_fresh);
        }
    }

    #[cold]
    fn note(&mut self, place: usize, is_fresh: bool) {
        let wrong = if is_fresh { &mut self.invented } else { &mut self.missed };
        wrong.push(place);
    }

    /// The ids that were called duplicates when they were new: never accepted, they may be fresh when they come again.
    pub fn refused<'a, B: Ids>(&self, stream: &'a Stream<B>) -> HashSet<&'a B::Id> {
        self.invented.iter().map(|&place| stream.id(place)).collect()
    }
}

/// What one thread has seen in the measured phase, by the numbers.
#[derive(Default)]
pub struct Counts {
    pub fresh: u64,
    pub invented: u64,
    pub duplicates: u64,
    pub missed: u64,
}

impl Counts {
    /// Counts answers to the ids of some places. Of ids that were refused none can be missed.
    pub fn of<B: Ids>(
        stream: &Stream<B>,
        places: Range<usize>,
        wrong: &WrongAnswers,
        refused: &HashSet<&B::Id>,
    ) -> Self {
        let fresh = stream.is_fresh[places.clone()].iter().filter(|&&is_fresh| is_fresh).count();
        let missed = wrong.missed.iter().filter(|&&place| !refused.contains(stream.id(place)));
        Counts {
            fresh: fresh as u64,
            invented: wrong.invented.len() as u64,
            duplicates: (places.len() - fresh) as u64,
            missed: missed.count() as u64,
        }
    }
}
