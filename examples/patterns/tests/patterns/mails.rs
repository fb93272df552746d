//! The record of sent mails, and its gap.

use crate::harness::{Delivery, Failed, Outcomes, Place, Trial, evening, judge, outcomes};
use hapax_patterns::sent_mails::{self, InDoubt, LEASE, MailError, Mailer, Sent, send_once};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;
use tokio::task::yield_now;
use tokio_postgres::Client;

/// A post office that counts what it was given.
#[derive(Default)]
struct Office {
    mails: Mutex<BTreeMap<String, usize>>,
    /// The answers to come; after them, yes.
    failures: Mutex<Vec<MailError>>,
}

impl Office {
    fn count(&self, key: &str) -> usize {
        self.mails.lock().unwrap().get(key).copied().unwrap_or(0)
    }
}

impl Mailer for Office {
    async fn send(&self, message_id: &str) -> Result<(), MailError> {
        yield_now().await; // who dies here has not sent it
        let failure = self.failures.lock().unwrap().pop();
        if failure != Some(MailError::NotSent) {
            *self.mails.lock().unwrap().entry(message_id.to_owned()).or_default() += 1;
        }
        yield_now().await; // who dies here has
        failure.map_or(Ok(()), Err)
    }
}

const TRIAL: Trial<'static> = Trial { before: "", orders: &[&[1], &[1, 1, 1]] };

async fn counted(place: &Place, in_doubt: InDoubt) -> Outcomes {
    let office = Office::default();
    let name = |key: i64| format!("{in_doubt:?} {key}");
    let handle = async |client: &mut Client, delivery: Delivery| match send_once(
        client,
        &office,
        &name(delivery.key),
        in_doubt,
        delivery.at,
    )
    .await?
    {
        Sent::Yes | Sent::Unknown => Ok::<_, Failed>(()),
        Sent::InProgress | Sent::No => Err("it comes again".into()),
    };
    let effect = async |_: &Client, key| office.count(&name(key)).to_string();
    let (trials, outcomes) = outcomes(place, &TRIAL, handle, effect).await.unwrap();
    println!("sent mails, in doubt {in_doubt:?}: {trials} trials, {outcomes:?}");
    outcomes
}

#[test]
fn in_doubt_a_mail_is_sent_twice_or_never_as_was_chosen() {
    Place::run(sent_mails::TABLE, async |place| {
        let sent = counted(&place, InDoubt::Send).await;
        assert_eq!(sent.keys().collect::<Vec<_>>(), ["1", "2"]);
        let left = counted(&place, InDoubt::Leave).await;
        assert_eq!(left.keys().collect::<Vec<_>>(), ["0", "1"]);
        // Only a death leaves a doubt: four senders at once send it once.
        for way in [&sent["2"], &left["0"]] {
            assert!(way.contains("dies"), "{way}");
        }
    });
}

#[test]
fn a_mail_that_is_noted_first_or_last_alone_is_found_out() {
    let table = "CREATE TABLE noted (mail_key text PRIMARY KEY)";
    Place::run(table, async |place| {
        let (insert, office) = ("INSERT INTO noted VALUES ($1) ON CONFLICT DO NOTHING", &Office::default());
        let first = async |client: &mut Client, delivery: Delivery| {
            let key = format!("first {}", delivery.key);
            if client.execute(insert, &[&key]).await? == 1 {
                office.send(&key).await.map_err(|failure| format!("{failure:?}"))?;
            }
            Ok::<_, Failed>(())
        };
        let last = async |client: &mut Client, delivery: Delivery| {
            let key = format!("last {}", delivery.key);
            if client.query_opt("SELECT 1 FROM noted WHERE mail_key = $1", &[&key]).await?.is_none() {
                office.send(&key).await.map_err(|failure| format!("{failure:?}"))?;
                client.execute(insert, &[&key]).await?;
            }
            Ok::<_, Failed>(())
        };
        // The first loses a mail, and nobody learns of it; the last sends one twice.
        let effect = async |_: &Client, key| office.count(&format!("first {key}")).to_string();
        let found = judge(&place, &TRIAL, first, effect, "1").await.unwrap_err();
        assert!(found.contains(r#"got "0""#), "{found}");
        let effect = async |_: &Client, key| office.count(&format!("last {key}")).to_string();
        let (_, outcomes) = outcomes(&place, &TRIAL, last, effect).await.unwrap();
        assert!(outcomes.contains_key("2"), "{outcomes:?}");
    });
}

#[test]
fn who_has_not_sent_says_so_and_who_does_not_know_waits_for_the_lease() {
    Place::run(sent_mails::TABLE, async |place| {
        let (client, office) = (&place.connect().await.client, Office::default());
        let send = async |in_doubt, after| {
            send_once(client, &office, "welcome 17", in_doubt, evening() + after).await.unwrap()
        };
        *office.failures.lock().unwrap() = vec![MailError::Unknown, MailError::NotSent];
        assert_eq!(send(InDoubt::Leave, Duration::ZERO).await, Sent::No);
        assert_eq!(send(InDoubt::Leave, Duration::ZERO).await, Sent::InProgress); // its answer was lost
        assert_eq!(send(InDoubt::Send, LEASE - Duration::from_secs(1)).await, Sent::InProgress);
        assert_eq!(send(InDoubt::Leave, LEASE).await, Sent::Unknown);
        assert_eq!(office.count("welcome 17"), 1);
        assert_eq!(send(InDoubt::Send, 2 * LEASE).await, Sent::Yes);
        assert_eq!(send(InDoubt::Send, 3 * LEASE).await, Sent::Yes); // before
        assert_eq!(office.count("welcome 17"), 2);
    });
}
