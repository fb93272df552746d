//! Dead letters that are added to the stream anew, and entries that were put aside, and come again.

use super::{HOUR, connect, options};
use crate::store::installed;
use hapax_redis::StreamEntry;
use testkit::redis_server::Server;
use testkit::redriven::{Billing, POISON, ids};

fn id(entry: &StreamEntry) -> Option<String> {
    entry.field("id").map(|id| String::from_utf8_lossy(id).into_owned())
}

fn dead_letters(server: &Server) -> Vec<(String, Vec<String>)> {
    server.ask(&["XRANGE", "orders:dead", "-", "+"])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_whose_fields_are_added_anew_is_handled_by_the_same_consumer() {
    let Some(server) = installed(|| Server::start(&[])) else { return };
    ids().for_each(|id| _ = server.ask::<String>(&["XADD", "orders", "*", "id", &id]));
    // Nothing is taken over because a machine is slow.
    let stream = connect(&server, options("one").idle(HOUR)).await;
    let billing = Billing::new(id).await;
    let replay = async {
        for (_, fields) in dead_letters(&server) {
            let add = ["XADD", "orders", "*"].into_iter().chain(fields.iter().map(String::as_str));
            server.ask::<String>(&add.collect::<Vec<_>>());
        }
    };
    billing.handles_what_is_sent_anew(&stream, replay).await;
    assert_eq!((dead_letters(&server).len(), stream.lag().await.expect("a lag").pending), (POISON.len(), 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_was_put_aside_and_not_acknowledged_is_put_aside_again_unhandled() {
    let Some(server) = installed(|| Server::start(&[])) else { return };
    server.ask::<String>(&["XADD", "orders", "*", "id", POISON[0]]);
    let stream = connect(&server, options("one").idle(HOUR)).await;
    Billing::new(id).await.puts_aside_again_what_is_repeated(&stream, 1).await;
    assert_eq!((dead_letters(&server).len(), stream.lag().await.expect("a lag").pending), (1, 0), "it is there once");
}
