//! A saga of three services, which dies at every step.

use crate::harness::{Delivery, Failed, Place, Trial, judge};
use hapax_http::{KeyBuilder, OutgoingKey};
use hapax_patterns::saga::{self, Answer, Services, State, WrongAnswer, begin, go_on};
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Mutex;
use tokio::task::yield_now;
use tokio_postgres::Client;

/// Three services, which keep their answers by key, and what they have done.
#[derive(Default)]
struct Town {
    refuses: Option<State>,
    answers: Mutex<HashMap<String, Answer>>,
    done: Mutex<HashMap<i64, Vec<&'static str>>>,
}

impl Town {
    fn refusing(state: State) -> Self {
        Town { refuses: Some(state), ..Town::default() }
    }

    fn done(&self, saga: i64) -> String {
        self.done.lock().unwrap().get(&saga).map_or(String::new(), |done| done.join(", "))
    }
}

impl Services for Town {
    type Error = Infallible;

    async fn call(&self, step: State, saga: i64, key: &OutgoingKey) -> Result<Answer, Infallible> {
        yield_now().await; // the request is on its way
        let answer = *self.answers.lock().unwrap().entry(key.to_string()).or_insert_with(|| {
            if self.refuses == Some(step) {
                return Answer::Refused;
            }
            self.done.lock().unwrap().entry(saga).or_default().push(step.name());
            Answer::Done
        });
        yield_now().await; // the answer is on its way
        Ok(answer)
    }
}

const TRIAL: Trial<'static> = Trial { before: "", orders: &[&[1], &[1, 1, 1]] };

#[test]
fn every_step_is_done_once_or_undone_once() {
    Place::run(saga::TABLE, async |place| {
        for (town, expected) in [
            (Town::default(), "charge, reserve, ship"),
            (Town::refusing(State::Charge), ""),
            (Town::refusing(State::Reserve), "charge, refund"),
            (Town::refusing(State::Ship), "charge, reserve, unreserve, refund"),
        ] {
            let handle = async |client: &mut Client, delivery: Delivery| {
                begin(client, delivery.key).await?;
                let end = go_on(client, &town, delivery.key).await?;
                assert_eq!(end == State::Done, town.refuses.is_none());
                Ok::<_, Failed>(())
            };
            let effect = async |_: &Client, key| town.done(key);
            let trials = judge(&place, &TRIAL, handle, effect, expected).await.unwrap();
            println!("saga that does {expected:?}: {trials} trials");
        }
    });
}

/// A saga that asks with the key of this attempt, which no later one knows.
async fn go_on_with_new_keys(client: &Client, town: &Town, saga: i64) -> Result<(), Failed> {
    for attempt in 0.. {
        let row = client.query_one("SELECT state FROM sagas WHERE saga_id = $1", &[&saga]).await?;
        let state = State::named(row.get(0)).ok_or("a state")?;
        if state.has_ended() {
            break;
        }
        let moment = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_nanos();
        let key = KeyBuilder::new("saga").int(saga).int(moment as i64).int(attempt).build();
        let next = state.after(town.call(state, saga, &key).await?)?;
        let sql = "UPDATE sagas SET state = $3 WHERE saga_id = $1 AND state = $2";
        client.execute(sql, &[&saga, &state.name(), &next.name()]).await?;
    }
    Ok(())
}

/// A saga that notes a step before it is done.
async fn go_on_before_it_is_done(client: &Client, town: &Town, saga: i64) -> Result<(), Failed> {
    loop {
        let row = client.query_one("SELECT state FROM sagas WHERE saga_id = $1", &[&saga]).await?;
        let state = State::named(row.get(0)).ok_or("a state")?;
        if state.has_ended() {
            return Ok(());
        }
        let next = state.after(Answer::Done)?;
        client.execute("UPDATE sagas SET state = $2 WHERE saga_id = $1", &[&saga, &next.name()]).await?;
        let key = KeyBuilder::new("saga").int(saga).text(state.name()).build();
        town.call(state, saga, &key).await?;
    }
}

#[test]
fn a_key_of_the_attempt_and_a_note_before_the_step_are_found_out() {
    Place::run(saga::TABLE, async |place| {
        let expected = "charge, reserve, ship";
        let town = Town::default();
        let with_new_keys = async |client: &mut Client, delivery: Delivery| {
            begin(client, delivery.key).await?;
            go_on_with_new_keys(client, &town, delivery.key).await
        };
        let found = judge(&place, &TRIAL, with_new_keys, async |_: &Client, key| town.done(key), expected).await;
        assert!(found.as_ref().is_err_and(|found| found.contains("charge, charge")), "{found:?}");

        let town = Town::default();
        let noted_before = async |client: &mut Client, delivery: Delivery| {
            begin(client, delivery.key).await?;
            go_on_before_it_is_done(client, &town, delivery.key).await
        };
        let found = judge(&place, &TRIAL, noted_before, async |_: &Client, key| town.done(key), expected).await;
        // What was noted and not done is missing.
        assert!(found.as_ref().is_err_and(|found| !found.contains("charge, reserve, ship\": ")), "{found:?}");
    });
}

#[test]
fn a_state_that_is_not_known_and_a_compensation_that_is_refused_are_errors() {
    Place::run(saga::TABLE, async |place| {
        let client = &place.connect().await.client;
        client.batch_execute("INSERT INTO sagas VALUES (1, 'lost'), (2, 'refund')").await.unwrap();
        let unknown = go_on(client, &Town::default(), 1).await.unwrap_err();
        assert_eq!(unknown.to_string(), r#"expected the name of a saga's state, got "lost""#);
        let refused = go_on(client, &Town::refusing(State::Refund), 2).await.unwrap_err();
        assert_eq!(refused.to_string(), WrongAnswer(State::Refund).to_string());
    });
}
