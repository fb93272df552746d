//! Judges the calls of an execution: their answers are right if they are those of some order of
//! them, in which no call comes before one that had returned when it began.

/// The part of a call that is about one id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// It was asked for: whether it was fresh; `None` if that was in doubt, and so handled.
    Asked {
        is_fresh: Option<bool>,
    },
    Forgotten,
    /// It may have been: it was accepted while everything was forgotten.
    MayBeForgotten,
}

/// A call, with the moments of its beginning and its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    pub(super) id: u64,
    pub(super) began: usize,
    pub(super) ended: usize,
    pub(super) deed: Deed,
}

impl Deed {
    const FRESH: Deed = Deed::Asked { is_fresh: Some(true) };
}

impl Done {
    fn overlaps(&self, other: &Done) -> bool {
        self.began < other.ended && other.began < self.ended
    }
}

/// Returns true if there is an order of these calls, all of one id, that explains their answers. Of
/// two checks at once one may be fresh beside the other if the id was forgotten while it was under
/// way, or, if so it is said, in any case: it is handled once more, and not lost.
pub(super) fn are_explained(calls: &[Done], is_known: bool, may_be_twice: bool) -> bool {
    let forgotten: Vec<_> = calls.iter().filter(|call| call.deed == Deed::Forgotten).copied().collect();
    let mut calls = calls.to_vec();
    let fresh: Vec<_> = calls.iter().filter(|call| call.deed == Deed::FRESH).copied().collect();
    let is_beside = |call: &Done, others: &[Done]| others.iter().filter(|other| call.overlaps(other)).count();
    for call in &mut calls {
        let may_be_twice = may_be_twice || is_beside(call, &forgotten) > 0;
        if call.deed == Deed::FRESH && may_be_twice && is_beside(call, &fresh) > 1 {
            call.deed = Deed::Asked { is_fresh: None };
        }
    }
    is_explained(&calls, is_known)
}

/// Returns true if there is an order of these calls, all of one id, that explains their answers.
fn is_explained(calls: &[Done], is_known: bool) -> bool {
    calls.is_empty()
        || (0..calls.len()).any(|first| {
            let call = calls[first];
            let may_be_first = calls.iter().all(|other| other.ended >= call.began);
            let mut others = calls.to_vec();
            others.remove(first);
            may_be_first
                && match call.deed {
                    Deed::Asked { is_fresh } => {
                        is_fresh.is_none_or(|is_fresh| is_fresh != is_known) && is_explained(&others, true)
                    }
                    Deed::Forgotten => is_explained(&others, false),
                    Deed::MayBeForgotten => is_explained(&others, is_known) || is_explained(&others, false),
                }
        })
}

#[test]
fn an_id_is_fresh_once_and_again_when_it_was_forgotten() {
    let asked = |began, ended, is_fresh| Done { id: 0, began, ended, deed: Deed::Asked { is_fresh: Some(is_fresh) } };
    let forgotten = |began, ended| Done { id: 0, began, ended, deed: Deed::Forgotten };
    assert!(is_explained(&[asked(0, 2, true), asked(1, 3, false)], false));
    assert!(is_explained(&[asked(0, 2, false), asked(1, 3, true)], false), "they overlap");
    assert!(!is_explained(&[asked(0, 1, false), asked(2, 3, true)], false), "they do not");
    assert!(!is_explained(&[asked(0, 2, true), asked(1, 3, true)], false));
    assert!(!is_explained(&[asked(0, 2, false), asked(1, 3, false)], false));
    assert!(!is_explained(&[asked(0, 2, true)], true));
    assert!(is_explained(&[asked(0, 2, true), forgotten(1, 3), asked(4, 5, true)], false));
    assert!(!is_explained(&[asked(0, 2, true), forgotten(1, 3), asked(4, 5, true)], true));
    assert!(!is_explained(&[forgotten(0, 1), asked(2, 3, false)], true));
    // Two at once that it is forgotten for: each may be fresh. Who comes later is, too.
    let both = [forgotten(0, 3), asked(1, 4, true), asked(2, 5, true)];
    assert!(!is_explained(&both, true) && are_explained(&both, true, false));
    let twice = [asked(1, 4, true), asked(2, 3, true), asked(5, 6, false)];
    assert!(!are_explained(&twice, false, false) && are_explained(&twice, false, true));
    let never = [asked(1, 4, false), asked(2, 3, false), asked(5, 6, false)];
    let thrice = [asked(1, 4, true), asked(2, 3, true), asked(5, 6, true)];
    assert!(!are_explained(&never, false, true) && !are_explained(&thrice, false, true));
    assert!(are_explained(&[forgotten(0, 1), asked(2, 4, true), asked(3, 5, false)], true, false));
    assert!(!are_explained(&[forgotten(0, 1), asked(2, 4, true), asked(3, 5, true)], true, false));
    assert!(!are_explained(&[forgotten(0, 2), asked(1, 3, true), asked(4, 5, true)], true, false));
    assert!(!are_explained(&[forgotten(0, 2), asked(1, 3, false), asked(4, 5, false)], true, false));
    let cleared = [forgotten(0, 3), Done { deed: Deed::MayBeForgotten, ..forgotten(0, 3) }];
    assert!(are_explained(&[&cleared[..], &[asked(1, 2, true), asked(4, 5, true)]].concat(), true, false));
    assert!(!are_explained(&[&cleared[..], &[asked(1, 2, false), asked(4, 5, false)]].concat(), true, false));
}
