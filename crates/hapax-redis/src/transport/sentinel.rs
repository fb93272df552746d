//! Sentinels: they know the current master.
//!
//! The procedure is that of Redis' guidelines for clients of Sentinel: ask for the address each
//! time that a connection is made, connect there, and accept it only if the server reports itself
//! that it is the master.

use super::endpoint::Endpoint;
use crate::resp::commands::Commands;
use crate::resp::errors::{error, refused};
use crate::resp::reply::Reply;
use hapax_store::{ErrorKind, StoreError};
use std::sync::Arc;
use tokio::task::JoinSet;

/// The Sentinels of one master.
#[derive(Clone)]
pub(crate) struct Sentinels {
    /// The name that the Sentinels have for it.
    pub(crate) master: String,
    pub(crate) endpoints: Vec<Endpoint>,
}

/// The address at which a Sentinel reports the master: host and port; `None` if it knows no master
/// of this name.
pub(crate) type Found = Result<Option<(String, u16)>, StoreError>;

impl Sentinels {
    /// Asks all at once: each answer arrives as soon as it is there, within the time limits for
    /// connecting and answering.
    pub(crate) fn ask(&self) -> JoinSet<Found> {
        let mut asked = JoinSet::new();
        for endpoint in &self.endpoints {
            asked.spawn(ask_one(endpoint.clone(), self.master.clone()));
        }
        asked
    }

    /// Returns the error that no Sentinel knows the name.
    pub(crate) fn unknown(&self) -> StoreError {
        let wrong = format!("the Sentinels know no master of the name {:?}", self.master);
        error(ErrorKind::Misconfigured, wrong)
    }
}

async fn ask_one(endpoint: Endpoint, master: String) -> Found {
    let question = Commands::of(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", &master]);
    let answered = endpoint.connect().await?.ask(Arc::new(question)).await?;
    master_of(answered.replies().next().unwrap_or(Reply::Nil), &endpoint.address())
}

/// Reads a Sentinel's answer.
fn master_of(answer: Reply<'_>, sentinel: &str) -> Found {
    let unexpected = || crate::resp::answers::unexpected("SENTINEL GET-MASTER-ADDR-BY-NAME", answer);
    match answer {
        Reply::Nil => Ok(None),
        Reply::Array(parts) => {
            let at = parts.all().and_then(|[host, port]| Some((host.text()?.to_owned(), port.text()?.parse().ok()?)));
            at.map(Some).ok_or_else(unexpected)
        }
        Reply::Refusal(refusal) if refusal.details().contains("unknown command") => {
            Err(error(ErrorKind::Misconfigured, format!("{sentinel} is no Sentinel: it answered {refusal}")))
        }
        Reply::Refusal(refusal) => Err(refused(refusal)),
        _ => Err(unexpected()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::reply::read;

    #[test]
    fn a_sentinel_says_where_the_master_is_or_that_it_knows_none() {
        let master_of = |answer: &str| master_of(read(answer.as_bytes()).expect("an answer"), "s");
        let found = master_of("*2\r\n$8\r\n10.0.0.1\r\n$4\r\n6379\r\n").unwrap();
        assert_eq!(found, Some(("10.0.0.1".into(), 6_379)));
        assert_eq!(master_of("*-1\r\n").unwrap(), None);
        for wrong in [
            ":1\r\n",
            "*1\r\n$8\r\n10.0.0.1\r\n",
            "*2\r\n$8\r\n10.0.0.1\r\n$5\r\n70000\r\n",
            "*2\r\n$-1\r\n$4\r\n6379\r\n",
        ] {
            assert_eq!(master_of(wrong).unwrap_err().kind(), ErrorKind::Corrupt, "{wrong:?}");
        }
        let refusal = master_of("-ERR unknown command 'SENTINEL', with args\r\n").unwrap_err();
        assert_eq!(refusal.kind(), ErrorKind::Misconfigured);
    }
}
