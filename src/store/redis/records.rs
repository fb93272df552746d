//! What is asked of records, and what of it is commands and what scripts.

use super::RedisStore;
use super::answers::{self, unexpected};
use super::value::{self, Kept};
use crate::store::*;
use ::redis::{Cmd, Value, cmd};
use std::time::Duration;

impl RedisStore {
    pub(super) async fn mark_each(&self, marks: &[Mark]) -> Answers<Marked> {
        let set = |mark: &Mark| {
            let name = self.keys.of(&mark.key);
            let mut set = Cmd::with_capacity(6, name.len() + 64);
            set.arg("SET").arg(&name).arg(value::attempt_bits(mark.attempt)).arg("NX");
            set.arg("PX").arg(value::expiry_ms(mark.retention));
            self.command(&name, set)
        };
        let is_set = |answer| match answer {
            Value::Okay => Ok(true),
            Value::Nil => Ok(false),
            other => Err(unexpected("SET", &other)),
        };
        let are_set = self.each(marks, set, is_set).await?;
        // Those that were there are looked at, in whole if they are marks: there are fewer of them, and `SET … NX GET` would cost each one a
        // fifth more, and not say for how long.
        let known = marks.iter().zip(&are_set).filter(|(_, is_set)| matches!(is_set, Ok(false)));
        let known: Vec<Vec<u8>> = known.map(|(mark, _)| self.keys.of(&mark.key)).collect();
        let mut looks = self.look(&known, value::MARK_BYTES as i64 - 1).await?.into_iter();
        let marked = marks.iter().zip(are_set).map(|(mark, is_set)| match is_set? {
            true => Ok(Marked::Fresh),
            false => {
                looks.next().map_or_else(|| Err(unexpected("a look", &Value::Nil)), |look| answers::marked(mark, look?))
            }
        });
        Ok(marked.collect())
    }

    pub(super) async fn unmark_each(&self, marks: &[Unmark]) -> Answers<Unmarked> {
        let arguments = |marks: &[Unmark], call: &mut Cmd| {
            for mark in marks {
                call.arg(value::attempt_bits(mark.attempt));
            }
        };
        let answer = |_: &Unmark, value| match value {
            Value::Int(1) => Ok(Unmarked::Done),
            Value::Int(0) => Ok(Unmarked::NotThere),
            other => Err(unexpected("taking a mark back", &other)),
        };
        self.scripted(&self.scripts.unmark, marks, |mark| self.keys.of(&mark.key), arguments, answer).await
    }

    pub(super) async fn claim_each(&self, claims: &[ClaimRequest]) -> Answers<Claimed> {
        let arguments = |claims: &[ClaimRequest], call: &mut Cmd| {
            for claim in claims {
                let fingerprint = claim.fingerprint.as_ref().map_or(&[][..], |fingerprint| &fingerprint.0);
                call.arg(&claim.attempt.to_be_bytes()).arg(fingerprint).arg(value::expiry_ms(claim.lease));
            }
        };
        let key = |claim: &ClaimRequest| self.keys.of(&claim.key);
        self.scripted(&self.scripts.claim, claims, key, arguments, answers::claimed).await
    }

    /// What is kept, up to a byte (-1: all of it), and for how much longer.
    pub(super) async fn look(&self, keys: &[Vec<u8>], last_byte: i64) -> Answers<Option<(Vec<u8>, Duration)>> {
        let arguments = |_: &[Vec<u8>], call: &mut Cmd| {
            call.arg(last_byte);
        };
        self.scripted(&self.scripts.look, keys, Clone::clone, arguments, |_, value| answers::kept_and_left(value)).await
    }

    /// Ends or extends claims: token, milliseconds and the last part of the value of each.
    pub(super) async fn hold<R>(
        &self,
        what: &str,
        requests: &[R],
        hold: impl Fn(&R) -> &Hold,
        rest: impl Fn(&R) -> (u64, Vec<u8>),
    ) -> Answers<Held> {
        let arguments = |requests: &[R], call: &mut Cmd| {
            call.arg(what);
            for request in requests {
                let (expiry_ms, tail) = rest(request);
                call.arg(value::token_text(hold(request).token)).arg(expiry_ms).arg(tail);
            }
        };
        let answer = |_: &R, value| match value {
            Value::Int(1) => Ok(Held::Done),
            Value::Int(0) => Ok(Held::Lost),
            other => Err(unexpected("a claim's end", &other)),
        };
        self.scripted(&self.scripts.hold, requests, |request| self.keys.of(&hold(request).key), arguments, answer).await
    }

    pub(super) async fn look_up_each(&self, keys: &[RecordKey]) -> Answers<Known> {
        let names: Vec<Vec<u8>> = keys.iter().map(|key| self.keys.of(key)).collect();
        let known = self.look(&names, -1).await?.into_iter().map(|kept| match kept? {
            None => Ok(Known::Unknown),
            Some((value, left)) => Ok(Kept::decode(&value)?.known(left)),
        });
        Ok(known.collect())
    }

    pub(super) async fn record_each(&self, records: &[Record]) -> Answers<()> {
        let set = |record: &Record| {
            let (name, value) =
                (self.keys.of(&record.key), value::recorded(record.fingerprint, record.result.as_deref()));
            let mut set = Cmd::with_capacity(5, name.len() + value.len() + 32);
            set.arg("SET").arg(&name).arg(value).arg("PX").arg(value::expiry_ms(record.retention));
            self.command(&name, set)
        };
        let answer = |value| match value {
            Value::Okay => Ok(()),
            other => Err(unexpected("SET", &other)),
        };
        self.each(records, set, answer).await
    }

    pub(super) async fn forget_each(&self, keys: &[RecordKey]) -> Answers<bool> {
        let unlink = |key: &RecordKey| {
            let name = self.keys.of(key);
            self.command(&name, cmd("UNLINK").arg(&name).take())
        };
        let answer = |value| match value {
            Value::Int(count) => Ok(count > 0),
            other => Err(unexpected("UNLINK", &other)),
        };
        self.each(keys, unlink, answer).await
    }
}
