//! A saga: three services, a key for each step, and compensations, which are steps as well.
//!
//! The state is a row. Whoever goes on with a saga, and there may be several, asks a service with a
//! key that is made of saga and step, and then moves the row: a crash between the two asks again,
//! with the same key, and gets the same answer. A step is undone only when a later one was refused
//! for certain; one whose answer was lost is asked again until there is one.

mod state;

pub use state::{Answer, State, WrongAnswer};

use hapax_http::{KeyBuilder, OutgoingKey};
use std::fmt;
use tokio_postgres::{Client, GenericClient};

/// The table of [`go_on`].
pub const TABLE: &str = "CREATE TABLE sagas (saga_id bigint PRIMARY KEY, state text NOT NULL)";

/// The services that a saga calls.
pub trait Services {
    /// The failure of a call whose answer is not known.
    type Error: std::error::Error;

    /// Does a step, or undoes it, with this key in its header `Idempotency-Key`: a second call with
    /// a key does nothing, and gets the answer of the first. Ends in time.
    fn call(
        &self,
        step: State,
        saga: i64,
        key: &OutgoingKey,
    ) -> impl Future<Output = Result<Answer, Self::Error>> + Send;
}

/// The reason for which a saga did not end. Go on with it later.
#[derive(Debug)]
pub enum SagaError<E> {
    /// The database could not be asked, or the answer was lost.
    Database(tokio_postgres::Error),
    /// A service could not be asked, or the answer was lost.
    Service(E),
    /// A compensation was refused: somebody must look.
    Answer(WrongAnswer),
    /// The row has a state that this program does not know.
    State(String),
}

/// Begins a saga, unless that was done before: in the transaction of what it is about.
///
/// # Errors
///
/// That of the database: nothing has changed, or the answer was lost.
pub async fn begin(client: &impl GenericClient, saga: i64) -> Result<(), tokio_postgres::Error> {
    let insert = "INSERT INTO sagas (saga_id, state) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    client.execute(insert, &[&saga, &State::FIRST.name()]).await?;
    Ok(())
}

/// Goes on with a saga from where it is, to its end, which is returned.
///
/// # Errors
///
/// [`SagaError`]: it is where it was, or a step further.
pub async fn go_on<S: Services>(client: &Client, services: &S, saga: i64) -> Result<State, SagaError<S::Error>> {
    loop {
        let select = "SELECT state FROM sagas WHERE saga_id = $1";
        let name: String = client.query_one(select, &[&saga]).await.map_err(SagaError::Database)?.get(0);
        let state = State::named(&name).ok_or(SagaError::State(name))?;
        if state.has_ended() {
            return Ok(state);
        }
        // Saga and step: the same in every attempt, of any process.
        let key = KeyBuilder::new("order-saga").int(saga).text(state.name()).build();
        let answer = services.call(state, saga, &key).await.map_err(SagaError::Service)?;
        let next = state.after(answer).map_err(SagaError::Answer)?;
        // If another process has gone on meanwhile, this changes nothing. No state comes twice.
        let go_on = "UPDATE sagas SET state = $3 WHERE saga_id = $1 AND state = $2";
        let moved = client.execute(go_on, &[&saga, &state.name(), &next.name()]).await;
        moved.map_err(SagaError::Database)?;
    }
}

impl<E: fmt::Display> fmt::Display for SagaError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SagaError::Database(error) => write!(f, "the database: {error}"),
            SagaError::Service(error) => write!(f, "a service: {error}"),
            SagaError::Answer(error) => error.fmt(f),
            SagaError::State(got) => write!(f, "expected the name of a saga's state, got {got:?}"),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for SagaError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SagaError::Database(error) => Some(error),
            SagaError::Service(error) => Some(error),
            SagaError::Answer(error) => Some(error),
            SagaError::State(_) => None,
        }
    }
}
