//! A partition of the network, in real time: the kernel sends again what it could not deliver.

use crate::store::connect;
use hapax_redis::RedisOptions;
use hapax_store::*;
use std::time::Duration;
use testkit::directory::Directory;
use testkit::namespaces::{Namespaces, SERVER};
use testkit::processes::{Process, await_until};
use testkit::redis_server::is_missing;
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

/// As the documents have it: an answer is lost, the message is redelivered to another instance, and
/// that one handles it.
#[test]
fn what_was_asked_for_in_a_partition_is_fresh_for_whoever_gets_it_again() {
    if is_missing() {
        return;
    }
    let Some(network) = Namespaces::new() else { return };
    let directory = Directory::new("partition");
    let (socket, log) = (directory.path().join("redis.sock"), directory.path().join("log"));
    let options = ["--bind", "0.0.0.0", "--protected-mode", "no", "--save", "", "--unixsocket", "redis.sock"];
    let command = network.on_server(&[&["redis-server"], &options[..]].concat());
    let _server = Process::start(command, &log, directory.path());
    await_until(&log, || socket.exists());
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| {
            network.move_to_client();
            // One thread: all sockets are its own.
            let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(partition(&network));
        });
        asked.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

async fn partition(network: &Namespaces) {
    let engine = async || {
        let store = connect(RedisOptions::single(format!("redis://{SERVER}:6379"), "h")).await;
        TieredDedup::builder(store).build().await.expect("an engine")
    };
    let (one, another) = (engine().await, engine().await);
    for dedup in [&one, &another] {
        assert!(dedup.check("before").await.is_ok());
    }
    network.are_apart(true);
    let began = Instant::now();
    let mut asked = JoinSet::new();
    for number in 0..40 {
        let dedup = one.clone();
        asked.spawn(async move { (number, dedup.check(format!("m-{number}")).await) });
    }
    // Shorter than what is doubted; the kernel's next tries come after its end.
    sleep_until(began + Duration::from_millis(7_300)).await;
    network.are_apart(false);
    let mut given_up = Vec::new();
    while let Some(answered) = asked.join_next().await {
        let (number, answer) = answered.expect("no panic");
        given_up.extend(answer.is_err().then_some(number));
    }
    assert!(given_up.len() > 20, "{} of 40 calls were given up", given_up.len());
    sleep_until(began + Duration::from_secs(30)).await;
    let mut lost: Vec<i32> = Vec::new();
    for number in &given_up {
        // Every second one comes to the instance that has asked.
        let dedup = if number % 2 == 0 { &one } else { &another };
        let verdict = loop {
            match dedup.check(format!("m-{number}")).await {
                Ok(verdict) => break verdict,
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        };
        lost.extend(verdict.is_duplicate().then_some(*number));
    }
    println!("{} of 40 calls were given up; of these are lost: {lost:?}", given_up.len());
    assert!(lost.is_empty(), "{lost:?}");
}
