//! One conditional write of an item: pure.

use crate::item::{self, *};
use aws_sdk_dynamodb::types::AttributeValue;
use hapax::Timestamp;
use hapax_store::backend::record::{State, StoredRecord, Trail};
use hapax_store::{Before, Fingerprint, HeldBy};
use std::collections::HashMap;

/// The part of a record that a write sets, removes or leaves as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field<T> {
    Stays,
    Gone,
    Is(T),
}

impl<T> From<Option<T>> for Field<T> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Field::Gone, Field::Is)
    }
}

/// The token that a write leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    Stays,
    Is(u64),
    /// One more than it was: the claim that had it is lost.
    GoneBy,
}

/// The record that a write leaves.
pub(crate) struct Written<'r> {
    pub(crate) state: &'static str,
    pub(crate) until: Timestamp,
    pub(crate) token: Token,
    pub(crate) attempt: Field<u64>,
    pub(crate) fingerprint: Field<Fingerprint>,
    pub(crate) result: Field<&'r [u8]>,
    pub(crate) held_by: Field<HeldBy>,
    /// The seconds for which the claim, or an earlier one, is in doubt.
    pub(crate) doubt: Field<u64>,
    pub(crate) before: Field<Before>,
}

/// The condition under which the service carries out a write.
pub(crate) enum Condition<'r> {
    /// There is no record that counts, and none with this token, or a larger one.
    Over { now: Timestamp, token: u64 },
    /// The same, and no claim may be in doubt.
    Clear { now: Timestamp, token: u64 },
    /// A claim with this token is in progress.
    Held { now: Timestamp, token: u64 },
    /// A claim with this token is in progress, and its lease ends no later than the one that is
    /// written: a renewal that comes late shortens none.
    Renewable { now: Timestamp, token: u64 },
    /// No claim counts, and no failure: the id is done, or its record is over.
    NotInHand { now: Timestamp },
    /// This attempt's mark counts.
    Marked { now: Timestamp, attempt: u64 },
    /// A record counts.
    Counts { now: Timestamp },
    /// The record is this one; or there is none.
    Still(Option<&'r StoredRecord>),
}

/// A write in the service's language.
#[derive(Debug, Default)]
pub(crate) struct Update {
    pub(crate) expression: String,
    pub(crate) condition: String,
    /// The names of attributes: most of ours are words of the language.
    pub(crate) names: HashMap<String, String>,
    pub(crate) values: HashMap<String, AttributeValue>,
}

impl<'r> Written<'r> {
    /// Returns a write of a whole record.
    pub(crate) fn whole(stored: &'r StoredRecord) -> Self {
        let (state, attempt, result) = match &stored.state {
            State::InProgress { attempt } => (CLAIMED, Some(*attempt), None),
            State::Failed => (FAILED, None, None),
            State::Completed { attempt, result } => (COMPLETED, *attempt, result.as_deref()),
        };
        let trail = stored.trail.as_deref();
        Written {
            state,
            until: stored.until,
            token: Token::Is(stored.token),
            attempt: attempt.into(),
            fingerprint: stored.fingerprint.into(),
            result: result.into(),
            held_by: trail.and_then(|trail| trail.held_by.clone()).into(),
            doubt: trail.map(|Trail { doubt, .. }| item::seconds(*doubt)).into(),
            before: trail.and_then(|trail| trail.before.clone()).into(),
        }
    }

    /// Returns the write of this record under a condition.
    pub(crate) fn only_if(self, condition: Condition<'_>) -> Update {
        let mut update = Update::default();
        let (mut sets, mut removes, mut adds) = (Vec::new(), Vec::new(), String::new());
        let mut field = |update: &mut Update, name: &'static str, value: Field<AttributeValue>| match value {
            Field::Stays => {}
            Field::Gone => removes.push(update.name(name)),
            Field::Is(value) => sets.push(format!("{} = {}", update.name(name), update.value(name, value))),
        };
        field(&mut update, STATE, Field::Is(AttributeValue::S(self.state.into())));
        field(&mut update, UNTIL, Field::Is(item::number(self.until.as_nanos())));
        let (ttl, stays) = (item::ttl(self.until), matches!(self.doubt, Field::Stays));
        match self.doubt {
            // As far as the item has a doubt, which the writer does not know.
            Field::Stays => {}
            Field::Gone => field(&mut update, TTL, Field::Is(item::number(ttl))),
            Field::Is(doubt) => field(&mut update, TTL, Field::Is(item::number(ttl.saturating_add(doubt)))),
        }
        field(&mut update, ATTEMPT, self.attempt.map(item::number));
        field(&mut update, FINGERPRINT, self.fingerprint.map(|fingerprint| item::binary(&fingerprint.0)));
        field(&mut update, RESULT, self.result.map(item::binary));
        field(&mut update, HELD_BY, self.held_by.map(|held_by| AttributeValue::S(held_by.as_str().into())));
        field(&mut update, DOUBT, self.doubt.map(item::number));
        field(&mut update, BEFORE, self.before.map(|before| item::before(&before)));
        match self.token {
            Token::Stays => {}
            Token::Is(0) => field(&mut update, TOKEN, Field::Gone),
            Token::Is(token) => field(&mut update, TOKEN, Field::Is(item::number(token))),
            Token::GoneBy => adds = format!(" ADD {} {}", update.name(TOKEN), update.value("one", item::number(1))),
        }
        if stays {
            let (name, doubt) = (update.name(TTL), update.name(DOUBT));
            let (none, ttl) = (update.value("none", item::number(0)), update.value(TTL, item::number(ttl)));
            sets.push(format!("{name} = if_not_exists({doubt}, {none}) + {ttl}"));
        }
        update.expression = format!("SET {}", sets.join(", "));
        if !removes.is_empty() {
            update.expression += &format!(" REMOVE {}", removes.join(", "));
        }
        update.expression += &adds;
        update.condition = update.condition(condition);
        update
    }
}

impl<T> Field<T> {
    fn map<U>(self, map: impl FnOnce(T) -> U) -> Field<U> {
        match self {
            Field::Stays => Field::Stays,
            Field::Gone => Field::Gone,
            Field::Is(value) => Field::Is(map(value)),
        }
    }
}

impl Update {
    /// The size of the result that it writes.
    pub(crate) fn result_bytes(&self) -> usize {
        match self.values.get(&format!(":{RESULT}")) {
            Some(AttributeValue::B(result)) => result.as_ref().len(),
            _ => 0,
        }
    }

    fn name(&mut self, name: &'static str) -> String {
        let placeholder = format!("#{name}");
        self.names.insert(placeholder.clone(), name.to_owned());
        placeholder
    }

    fn value(&mut self, name: &str, value: AttributeValue) -> String {
        let placeholder = format!(":{name}");
        self.values.insert(placeholder.clone(), value);
        placeholder
    }

    /// Compares an attribute with a value.
    fn is(&mut self, name: &'static str, operator: &str, value: AttributeValue) -> String {
        format!("{} {operator} {}", self.name(name), self.value(&format!("if_{name}"), value))
    }

    fn condition(&mut self, condition: Condition<'_>) -> String {
        let nanos = |time: Timestamp| item::number(time.as_nanos());
        let state = |state: &str| AttributeValue::S(state.into());
        match condition {
            Condition::Over { now, token } => {
                let is_over = self.is(UNTIL, "<=", nanos(now));
                let is_less = self.is(TOKEN, "<", item::number(token));
                let (id, token) = (self.name(ID), self.name(TOKEN));
                format!("attribute_not_exists({id}) OR ({is_over} AND (attribute_not_exists({token}) OR {is_less}))")
            }
            Condition::Clear { now, token } => {
                let over = self.condition(Condition::Over { now, token });
                let (id, before) = (self.name(ID), self.name(BEFORE));
                let is_claim = self.is(STATE, "<>", state(CLAIMED));
                format!("({over}) AND (attribute_not_exists({id}) OR (attribute_not_exists({before}) AND {is_claim}))")
            }
            Condition::Held { now, token } => {
                let parts = [self.is(STATE, "=", state(CLAIMED)), self.is(TOKEN, "=", item::number(token))];
                format!("{} AND {}", parts.join(" AND "), self.is(UNTIL, ">", nanos(now)))
            }
            Condition::Renewable { now, token } => {
                let held = self.condition(Condition::Held { now, token });
                format!("{held} AND {} <= :{UNTIL}", self.name(UNTIL))
            }
            Condition::NotInHand { now } => {
                let is_over = self.is(UNTIL, "<=", nanos(now));
                let is_done = self.is(STATE, "=", state(COMPLETED));
                format!("attribute_not_exists({}) OR {is_over} OR {is_done}", self.name(ID))
            }
            Condition::Marked { now, attempt } => {
                let parts = [self.is(STATE, "=", state(COMPLETED)), self.is(ATTEMPT, "=", item::number(attempt))];
                format!("{} AND {}", parts.join(" AND "), self.is(UNTIL, ">", nanos(now)))
            }
            Condition::Counts { now } => self.is(UNTIL, ">", nanos(now)),
            Condition::Still(None) => format!("attribute_not_exists({})", self.name(ID)),
            Condition::Still(Some(stored)) => self.still(stored),
        }
    }

    /// Compares with all that ever differs between two records of an id.
    fn still(&mut self, stored: &StoredRecord) -> String {
        let Written { state, until, attempt, .. } = Written::whole(stored);
        let mut parts = vec![
            self.is(STATE, "=", AttributeValue::S(state.into())),
            self.is(UNTIL, "=", item::number(until.as_nanos())),
        ];
        let numbers = [(TOKEN, Field::from(Some(stored.token).filter(|token| *token != 0))), (ATTEMPT, attempt)];
        for (name, number) in numbers {
            parts.push(match number {
                Field::Is(number) => self.is(name, "=", item::number(number)),
                _ => format!("attribute_not_exists({})", self.name(name)),
            });
        }
        parts.join(" AND ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Every placeholder is given, and none that is not asked for: the service refuses both.
    fn is_closed(update: &Update) {
        let text = format!("{} {}", update.expression, update.condition);
        let word = |c: char| !(c.is_alphanumeric() || c == '_');
        let asked = |mark: char| {
            let words = text.split(|c: char| c != '#' && c != ':' && word(c)).filter(|word| word.starts_with(mark));
            words.map(str::to_owned).collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(asked('#'), update.names.keys().cloned().collect(), "{text}");
        assert_eq!(asked(':'), update.values.keys().cloned().collect(), "{text}");
    }

    #[test]
    fn placeholders_are_those_that_are_given() {
        let now = Timestamp::from_secs(1);
        let stored = StoredRecord {
            state: State::Completed { attempt: Some(3), result: Some(b"paid".into()) },
            token: 7,
            fingerprint: Some(Fingerprint([1; 16])),
            until: now,
            trail: None,
        };
        let none = StoredRecord { state: State::Failed, token: 0, fingerprint: None, until: now, trail: None };
        let (doubt, held_by, before) = (Duration::from_secs(7), Some(HeldBy::of("a")), Some(Before::new(5, None)));
        let trail = Some(Box::new(Trail { doubt, held_by, before }));
        let doubted = StoredRecord { state: State::InProgress { attempt: 3 }, trail, ..none.clone() };
        let conditions = || {
            [
                Condition::Over { now, token: 5 },
                Condition::Clear { now, token: 5 },
                Condition::Held { now, token: 5 },
                Condition::Renewable { now, token: 5 },
                Condition::NotInHand { now },
                Condition::Marked { now, attempt: 5 },
                Condition::Counts { now },
                Condition::Still(None),
                Condition::Still(Some(&stored)),
                Condition::Still(Some(&none)),
            ]
        };
        for whole in [&stored, &none, &doubted] {
            for condition in conditions() {
                is_closed(&Written::whole(whole).only_if(condition));
            }
        }
        let written = Written { token: Token::GoneBy, fingerprint: Field::Stays, ..Written::whole(&stored) };
        is_closed(&written.only_if(Condition::NotInHand { now }));
        let written = Written { doubt: Field::Stays, ..Written::whole(&none) };
        is_closed(&written.only_if(Condition::Held { now, token: 5 }));
    }

    #[test]
    fn a_claim_is_written_where_nothing_counts_and_its_token_is_the_largest() {
        let (now, until) = (Timestamp::from_secs(1), Timestamp::from_secs(31));
        let state = State::InProgress { attempt: 3 };
        let claim = StoredRecord { state, token: 7, fingerprint: None, until, trail: None };
        let update = Written::whole(&claim).only_if(Condition::Over { now, token: 7 });
        assert_eq!(
            update.expression,
            "SET #state = :state, #until_ns = :until_ns, #ttl = :ttl, #attempt = :attempt, #token = :token \
             REMOVE #fingerprint, #result, #held_by, #doubt_s, #before"
        );
        assert_eq!(
            update.condition,
            "attribute_not_exists(#id) OR (#until_ns <= :if_until_ns AND \
             (attribute_not_exists(#token) OR #token < :if_token))"
        );
    }
}
