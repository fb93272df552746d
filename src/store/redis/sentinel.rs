//! Sentinels: who is the master now.
//!
//! As Redis' guidelines for clients of Sentinel have it: ask for the address each time that a
//! connection is made, connect there, and believe it only if the server says itself that it is the
//! master.

use super::errors::{error, failed, not_connected, refused};
use super::options::Timing;
use super::role;
use crate::store::{ErrorKind, StoreError};
use redis::{AsyncConnectionConfig, Client, Pipeline, Value, cmd};
use tokio::task::JoinSet;

/// The Sentinels of one master.
#[derive(Clone)]
pub(super) struct Sentinels {
    /// The name that they have for it.
    pub(super) master: String,
    pub(super) clients: Vec<Client>,
}

/// Returns the place where a Sentinel says that the master is: host and port; nowhere, if it knows
/// none of this name.
pub(super) type Found = Result<Option<(String, u16)>, StoreError>;

impl Sentinels {
    /// Asks all at once: what each says comes as soon as it does, within the time that connecting
    /// and answering may take.
    pub(super) fn ask(&self, timing: Timing) -> JoinSet<Found> {
        let mut asked = JoinSet::new();
        for client in &self.clients {
            asked.spawn(ask_one(client.clone(), self.master.clone(), timing));
        }
        asked
    }

    /// No Sentinel knows the name.
    pub(super) fn unknown(&self) -> StoreError {
        let wrong = format!("the Sentinels know no master of the name {:?}", self.master);
        error(ErrorKind::Misconfigured, wrong)
    }
}

async fn ask_one(client: Client, master: String, timing: Timing) -> Found {
    let address = client.get_connection_info().addr().to_string();
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(timing.connect_timeout))
        .set_response_timeout(Some(timing.response_timeout));
    let mut connection = client
        .get_multiplexed_async_connection_with_config(&config)
        .await
        .map_err(|cause| not_connected(cause, format!("no connection to the Sentinel {address}")))?;
    let mut question = Pipeline::new();
    question.add_command(cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(master).take());
    let answers = connection.send_packed_commands(&question, 0, 1).await;
    let answers = answers.map_err(|cause| failed(cause, "the connection to a Sentinel failed"))?;
    master_of(answers.first().unwrap_or(&Value::Nil), &address)
}

/// Reads what a Sentinel answers.
fn master_of(answer: &Value, sentinel: &str) -> Found {
    let at = |parts: &[Value]| match parts {
        [host, port] => Some((role::text(host)?.to_owned(), role::text(port)?.parse().ok()?)),
        _ => None,
    };
    let unexpected = || super::answers::unexpected("SENTINEL GET-MASTER-ADDR-BY-NAME", answer);
    match answer {
        Value::Nil => Ok(None),
        Value::Array(parts) => at(parts).map(Some).ok_or_else(unexpected),
        Value::ServerError(refusal) if refusal.details().is_some_and(|details| details.contains("unknown command")) => {
            Err(error(ErrorKind::Misconfigured, format!("{sentinel} is no Sentinel: it answered {refusal}")))
        }
        Value::ServerError(refusal) => Err(refused(refusal)),
        _ => Err(unexpected()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentinel_says_where_the_master_is_or_that_it_knows_none() {
        let bulk = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let found = master_of(&Value::Array(vec![bulk("10.0.0.1"), bulk("6379")]), "s").unwrap();
        assert_eq!(found, Some(("10.0.0.1".into(), 6_379)));
        assert_eq!(master_of(&Value::Nil, "s").unwrap(), None);
        for wrong in [
            Value::Int(1),
            Value::Array(vec![bulk("10.0.0.1")]),
            Value::Array(vec![bulk("10.0.0.1"), bulk("70000")]),
            Value::Array(vec![Value::Nil, bulk("6379")]),
        ] {
            assert_eq!(master_of(&wrong, "s").unwrap_err().kind(), ErrorKind::Corrupt, "{wrong:?}");
        }
    }
}
