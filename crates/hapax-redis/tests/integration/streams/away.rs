//! Servers that are away, hang, or have lost the stream.

use super::{add, connect, ids, options, receive};
use crate::store::installed;
use hapax_redis::{RedisOptions, RedisStream, RedisStreamError};
use hapax_store::ErrorKind;
use hapax_stream::Source;
use std::time::{Duration, Instant};
use testkit::processes::PATIENCE;
use testkit::redis_server::Server;

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_away_is_waited_for() {
    let Some(server) = installed(|| Server::start(&["--appendonly", "yes", "--appendfsync", "always"])) else { return };
    let stream = connect(&server, options("one")).await;
    add(&server, 0..4);
    let all = receive(&stream, 4).await;
    for _ in 0..2 {
        server.kill();
        let back = async {
            tokio::time::sleep(Duration::from_millis(700)).await;
            tokio::task::block_in_place(|| server.start_again());
        };
        let (done, ()) = tokio::join!(stream.acknowledge(&all[..2]), back);
        done.expect("acknowledged, later");
    }
    server.kill();
    let back = async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        tokio::task::block_in_place(|| server.start_again());
        add(&server, 4..5);
    };
    let (rest, ()) = tokio::join!(receive(&stream, 3), back);
    let mut rest = ids(&rest);
    rest.sort();
    assert_eq!(rest, ["o-2", "o-3", "o-4"], "what was acknowledged does not come again, and nothing is lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wait_for_a_server_has_an_end() {
    let Some(server) = installed(|| Server::start(&[])) else { return };
    let redis = RedisOptions::single(server.url(), "test").response_timeout(Duration::from_millis(300));
    for (wait, least) in [(Duration::ZERO, Duration::ZERO), (Duration::from_secs(2), Duration::from_secs(1))] {
        let stream = RedisStream::connect(redis.clone(), options("one").retry_for(wait)).await.expect("a stream");
        server.pause();
        let began = Instant::now();
        let error = tokio::time::timeout(PATIENCE, stream.receive(1)).await.expect("an end").expect_err("an error");
        server.resume();
        assert!(began.elapsed() >= least, "{:?}", began.elapsed());
        let RedisStreamError::Server { cause, .. } = error else { panic!("{error}") };
        assert!(matches!(cause.kind(), ErrorKind::Timeout | ErrorKind::Unavailable), "{cause}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_gone_is_an_error_and_is_made_anew_by_the_next_one() {
    let Some(server) = installed(|| Server::start(&[])) else { return };
    let stream = connect(&server, options("one")).await;
    add(&server, 0..1);
    receive(&stream, 1).await;
    for lost in [&["FLUSHALL"][..], &["XGROUP", "DESTROY", "orders", "billing"]] {
        server.ask::<redis::Value>(lost);
        for _ in 0..2 {
            let error = stream.receive(1).await.expect_err("an error, and no more entries");
            assert!(matches!(error, RedisStreamError::NoGroup { .. }), "{error}");
        }
        assert!(matches!(stream.lag().await, Err(RedisStreamError::NoGroup { .. })));
        let stream = connect(&server, options("one")).await;
        add(&server, 1..2);
        assert_eq!(receive(&stream, 1).await.len(), 1);
    }
}

#[tokio::test]
async fn a_key_that_is_no_stream_is_an_error_at_once() {
    let Some(server) = installed(|| Server::start(&[])) else { return };
    server.ask::<String>(&["SET", "orders", "x"]);
    let refused = RedisStream::connect(RedisOptions::single(server.url(), "test"), options("one")).await.map(drop);
    assert!(matches!(refused, Err(RedisStreamError::Server { .. })), "{refused:?}");
}
