//! Judges the calls of an execution: their answers are right if they are those of some order of
//! them, in which no call comes before one that had returned when it began.

/// The part of a call that is about one id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// It was asked for: whether it was fresh; `None` if that was in doubt, and so handled.
    Asked { is_fresh: Option<bool> },
    Forgotten,
}

/// A call, with the moments of its beginning and its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    pub(super) id: u64,
    pub(super) began: usize,
    pub(super) ended: usize,
    pub(super) deed: Deed,
}

/// Returns true if there is an order of these calls, all of one id, that explains their answers.
pub(super) fn is_explained(calls: &[Done], is_known: bool) -> bool {
    calls.is_empty()
        || (0..calls.len()).any(|first| {
            let call = calls[first];
            let may_be_first = calls.iter().all(|other| other.ended >= call.began);
            let (fits, is_known_then) = match call.deed {
                Deed::Asked { is_fresh } => (is_fresh.is_none_or(|is_fresh| is_fresh != is_known), true),
                Deed::Forgotten => (true, false),
            };
            let mut others = calls.to_vec();
            others.remove(first);
            may_be_first && fits && is_explained(&others, is_known_then)
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
}
