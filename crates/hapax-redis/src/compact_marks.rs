//! Requests for marks that are members of sets, and for records beside them.

use super::RedisStore;
use super::answers::left_of_member;
use super::batch::Calls;
use super::commands::Commands;
use super::compact::{Layout, Place};
use hapax_store::*;
use std::time::Duration;

impl RedisStore {
    pub(super) async fn mark_compactly(&self, layout: &Layout, marks: &[Mark]) -> Answers<Marked> {
        let asked: Vec<(&RecordKey, Duration)> = marks.iter().map(|mark| (&mark.key, mark.retention)).collect();
        let marked = self.mark_members(layout, &asked).await?.into_iter().map(|left| {
            Ok(match left? {
                None => Marked::Fresh,
                Some(expires_in) => Marked::Duplicate { expires_in, attempt: None },
            })
        });
        Ok(marked.collect())
    }

    pub(super) async fn record_compactly(&self, layout: &Layout, records: &[Record]) -> Answers<()> {
        let is_plain = |record: &Record| record.fingerprint.is_none() && record.result.is_none();
        let plain: Vec<(&RecordKey, Duration)> =
            records.iter().filter(|record| is_plain(record)).map(|record| (&record.key, record.retention)).collect();
        let others: Vec<Record> = records.iter().filter(|record| !is_plain(record)).cloned().collect();
        let mut plain = self.mark_members(layout, &plain).await?.into_iter().map(|left| left.map(|_| ()));
        let mut others = self.record_each(&others).await?.into_iter();
        let answer = |record| if is_plain(record) { plain.next() } else { others.next() };
        Ok(records.iter().filter_map(answer).collect())
    }

    /// Claims ids that are not marked. (A mark in between comes too late, and is told that it is
    /// fresh: marks don't see claims.)
    pub(super) async fn claim_unmarked(&self, layout: &Layout, claims: &[ClaimRequest]) -> Answers<Claimed> {
        let places: Vec<Place> = claims.iter().map(|claim| layout.place(&claim.key)).collect();
        let marked = self.members(layout, "look", &places).await?;
        let unmarked = claims.iter().zip(&marked).filter(|(_, left)| matches!(left, Ok(None)));
        let unmarked: Vec<ClaimRequest> = unmarked.map(|(claim, _)| claim.clone()).collect();
        let mut claimed = self.claim_each(&unmarked).await?.into_iter();
        let answer = |left| match left {
            Err(failure) => Some(Err(failure)),
            Ok(Some(expires_in)) => Some(Ok(Claimed::Duplicate(Completed::new(expires_in, None, None)))),
            Ok(None) => claimed.next(),
        };
        Ok(marked.into_iter().filter_map(answer).collect())
    }

    pub(super) async fn look_up_marks(&self, layout: &Layout, keys: &[RecordKey]) -> Answers<Known> {
        let places: Vec<Place> = keys.iter().map(|key| layout.place(key)).collect();
        let marked = self.members(layout, "look", &places).await?;
        let known = self.look_up_each(keys).await?.into_iter().zip(marked).map(|(known, left)| match (known?, left?) {
            (Known::Unknown, Some(expires_in)) => Ok(Known::Completed(Completed::new(expires_in, None, None))),
            (known, _) => Ok(known),
        });
        Ok(known.collect())
    }

    pub(super) async fn forget_marks(&self, layout: &Layout, keys: &[RecordKey]) -> Answers<bool> {
        let places: Vec<Place> = keys.iter().map(|key| layout.place(key)).collect();
        let marked = self.members(layout, "forget", &places).await?;
        let forgotten = self.forget_each(keys).await?.into_iter().zip(marked);
        Ok(forgotten.map(|(forgotten, left)| Ok(forgotten? | left?.is_some())).collect())
    }

    /// Marks ids, and returns the remaining time of those that were marked before. Longer
    /// retentions than the sets' are refused.
    async fn mark_members(&self, layout: &Layout, asked: &[(&RecordKey, Duration)]) -> Answers<Option<Duration>> {
        let refused: Vec<Option<StoreError>> =
            asked.iter().map(|(_, retention)| layout.check(*retention).err()).collect();
        let granted = asked.iter().zip(&refused).filter(|(_, refused)| refused.is_none());
        let places: Vec<Place> = granted.map(|((key, _), _)| layout.place(key)).collect();
        let mut marked = self.members(layout, "mark", &places).await?.into_iter();
        let answer = |refused| match refused {
            Some(refused) => Some(Err(refused)),
            None => marked.next(),
        };
        Ok(refused.into_iter().filter_map(answer).collect())
    }

    /// Marks members of sets, looks at them or forgets them, and returns the remaining time of each
    /// that was known.
    async fn members(&self, layout: &Layout, what: &'static str, places: &[Place]) -> Answers<Option<Duration>> {
        let calls = Calls {
            key: |place: &Place, commands: &mut Commands| commands.parts(self.keys.of_set(&place.set)),
            first: (3, |commands: &mut Commands| {
                commands.text(what);
                commands.number(layout.width_ms());
                commands.number(layout.older());
            }),
            each: (1, |place: &Place, commands: &mut Commands| commands.signed(place.member)),
        };
        self.scripted(&self.scripts.compact, places, calls, |_, reply| left_of_member(reply)).await
    }
}
