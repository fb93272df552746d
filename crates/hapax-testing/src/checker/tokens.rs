//! The fencing tokens of one id's claims: each is larger than those of all earlier claims.

use super::problem::Problem;
use crate::operation::{Event, Interval, Operation};
use std::collections::HashMap;

/// The largest token that each id's claims have had in earlier pieces.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tokens(HashMap<u64, u64>);

/// A claim that got a token.
#[derive(Clone, Copy, Debug)]
struct Got {
    token: u64,
    interval: Interval,
    thread: u16,
}

impl Tokens {
    /// Checks the claims among one id's operations, which come in the order in which they were
    /// invoked. Of two claims that overlap, either may have the larger token.
    pub(crate) fn check<'o>(
        &mut self,
        id: u64,
        operations: impl Iterator<Item = &'o Operation>,
    ) -> Result<(), Problem> {
        let got = operations.filter(|operation| operation.event == Event::Claimed && operation.token != 0);
        let got: Vec<_> =
            got.map(|&Operation { token, interval, thread, .. }| Got { token, interval, thread }).collect();
        if got.is_empty() {
            return Ok(());
        }
        let earlier = self.0.entry(id).or_default();
        grow(&got, *earlier)?;
        let mut tokens: Vec<_> = got.iter().map(|got| got.token).collect();
        tokens.sort_unstable();
        if let Some(twice) = tokens.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Problem::TokenGivenTwice { token: twice[0] });
        }
        *earlier = tokens.last().copied().unwrap_or(*earlier);
        Ok(())
    }
}

/// Checks that each token is larger than those of the claims that had returned before.
fn grow(got: &[Got], earlier: u64) -> Result<(), Problem> {
    let mut by_returned: Vec<_> = got.iter().collect();
    by_returned.sort_by_key(|got| got.interval.returned);
    let mut returned = by_returned.iter().peekable();
    let mut largest = earlier;
    // Calls of one thread follow each other, whatever their stamps are.
    let mut of_thread = HashMap::new();
    for one in got {
        while let Some(other) = returned.next_if(|other| other.interval.returned < one.interval.invoked) {
            largest = largest.max(other.token);
        }
        let earlier = largest.max(of_thread.insert(one.thread, one.token).unwrap_or(0));
        match one.token {
            token if token == earlier => return Err(Problem::TokenGivenTwice { token }),
            token if token < earlier => return Err(Problem::TokenTooSmall { token, earlier }),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(rows: &[(u16, u64, u64, u64)]) -> Vec<Operation> {
        let claim = |&(thread, invoked, returned, token)| Operation {
            interval: Interval { invoked, returned },
            token,
            thread,
            event: Event::Claimed,
            ..Operation::default()
        };
        rows.iter().map(claim).collect()
    }

    fn checked(pieces: &[&[(u16, u64, u64, u64)]]) -> Result<(), Problem> {
        let mut tokens = Tokens::default();
        pieces.iter().try_for_each(|rows| tokens.check(1, claims(rows).iter()))
    }

    #[test]
    fn tokens_grow_and_are_given_once() {
        assert_eq!(checked(&[&[(0, 1, 2, 5), (1, 3, 4, 6), (0, 5, 6, 9)]]), Ok(()));
        assert_eq!(checked(&[&[(0, 1, 2, 5), (1, 3, 4, 5)]]), Err(Problem::TokenGivenTwice { token: 5 }));
        let too_small = Problem::TokenTooSmall { token: 4, earlier: 5 };
        assert_eq!(checked(&[&[(0, 1, 2, 5), (1, 3, 4, 4)]]), Err(too_small));
        // Those that overlap may have any order, but not the same token.
        assert_eq!(checked(&[&[(0, 1, 4, 5), (1, 2, 3, 4), (0, 5, 6, 6)]]), Ok(()));
        assert_eq!(checked(&[&[(0, 1, 4, 5), (1, 2, 3, 5)]]), Err(Problem::TokenGivenTwice { token: 5 }));
        // One thread's calls follow each other, whatever their stamps.
        assert_eq!(checked(&[&[(0, 1, 1, 5), (0, 1, 1, 4)]]), Err(too_small));
        // The largest of those that have returned counts.
        let rows: &[_] = &[(0, 1, 2, 9), (1, 3, 4, 10), (2, 5, 9, 11), (0, 6, 7, 10)];
        assert_eq!(checked(&[rows]), Err(Problem::TokenGivenTwice { token: 10 }));
    }

    #[test]
    fn tokens_grow_from_one_piece_to_the_next() {
        assert_eq!(checked(&[&[(0, 1, 2, 5)], &[(1, 1, 2, 6)]]), Ok(()));
        assert_eq!(checked(&[&[(0, 1, 2, 5)], &[(1, 1, 2, 5)]]), Err(Problem::TokenGivenTwice { token: 5 }));
        let too_small = Problem::TokenTooSmall { token: 4, earlier: 5 };
        assert_eq!(checked(&[&[(0, 1, 2, 5)], &[], &[(1, 1, 2, 4)]]), Err(too_small));
        assert_eq!(checked(&[&[(0, 1, 2, 0)], &[(1, 1, 2, 0)]]), Ok(()), "claims without tokens");
    }
}
