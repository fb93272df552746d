//! Senders that deliver every event at least twice, and again until they get a 200.

use crate::directory::Directory;
use crate::http::{client, post, post_until_done};
use crate::killed::{Consumer, check_effects, effects, seed};
use crate::processes::{await_port, free_port};
use hapax_brokers::{ledger, signature};
use std::time::SystemTime;
use tokio::runtime::Runtime;

const EVENTS: usize = 150;
const SENDERS: usize = 6;
const KILLS: usize = 6;
pub const SECRET: &str = "whsec_test";

fn signed(body: &str) -> [(&'static str, String); 1] {
    [("webhook-signature", signature::sign(SECRET.as_bytes(), body.as_bytes(), SystemTime::now()))]
}

/// Starts a receiver. Returns its address, too.
fn start(directory: &Directory, seed: u64) -> (Consumer, String) {
    let (port, log) = (free_port(), directory.path().join("receiver.log"));
    let arguments = vec![format!("127.0.0.1:{port}"), directory.file("events.db"), directory.file("ledger")];
    let receiver = Consumer::start(env!("CARGO_BIN_EXE_webhook"), arguments, &log, seed);
    await_port(port, &log);
    (receiver, format!("http://127.0.0.1:{port}/webhook"))
}

#[test]
fn each_event_is_handled_once_however_often_it_is_sent() {
    let (directory, seed) = (Directory::new("webhook"), seed("webhook"));
    let (mut receiver, url) = start(&directory, seed);
    let ids: Vec<String> = (0..EVENTS).map(|number| format!("evt-{number}")).collect();
    let (runtime, client) = (Runtime::new().expect("a runtime"), client());

    // Each event comes from two senders, one from the front and one from the back, so that some
    // come at the same time.
    let senders = (0..SENDERS).map(|sender| {
        let own = ids.iter().skip(sender / 2).step_by(SENDERS / 2).cloned();
        let own: Vec<String> = if sender % 2 == 0 { own.collect() } else { own.rev().collect() };
        let (client, url) = (client.clone(), url.clone());
        runtime.spawn(async move {
            for id in own {
                let body = format!("{{\"id\":\"{id}\",\"type\":\"invoice.paid\"}}");
                post_until_done(&client, &url, &signed(&body), &body).await;
            }
        })
    });
    let senders: Vec<_> = senders.collect();
    let ledger = directory.file("ledger");
    receiver.kill_at_random(KILLS, EVENTS, || effects(&ledger));
    for sender in senders {
        runtime.block_on(sender).expect("a sender that was told 200 for all its events");
    }
    // As a sender that never got the 200.
    let again = runtime.block_on(async {
        let body = "{\"id\":\"evt-0\",\"type\":\"invoice.paid\"}";
        post(&client, &url, &signed(body), body).await
    });
    assert_eq!(again.expect("an answer").0, 200);
    check_effects("webhook", &ids, &ledger::count(&ledger).expect("a ledger"), receiver.kills, SENDERS);
}

#[test]
fn what_is_not_signed_or_has_no_id_is_refused_and_burns_no_id() {
    let (directory, client) = (Directory::new("webhook-refused"), client());
    let (_receiver, url) = start(&directory, 0);
    let runtime = Runtime::new().expect("a runtime");
    let status = |headers: &[(&'static str, String)], body: &str| {
        runtime.block_on(post(&client, &url, headers, body)).expect("an answer").0
    };
    let body = r#"{"id":"evt-1"}"#;
    assert_eq!(status(&[], body), 401);
    assert_eq!(status(&signed(r#"{"id":"evt-2"}"#), body), 401);
    let header = |time| [("webhook-signature", signature::sign(SECRET.as_bytes(), body.as_bytes(), time))];
    assert_eq!(status(&header(SystemTime::now() - std::time::Duration::from_secs(600)), body), 401);
    for wrong in ["{", "{}", r#"{"id":7}"#, r#"{"id":" "}"#] {
        assert_eq!(status(&signed(wrong), wrong), 400, "{wrong}");
    }
    assert_eq!(effects(&directory.file("ledger")), 0);
    assert_eq!(status(&signed(body), body), 200);
    assert_eq!(effects(&directory.file("ledger")), 1);
}
