//! On a Redis and a PostgreSQL of the test's own.

use crate::store::{fill, hapax, printed, wait};
use hapax_postgres::{PostgresOptions, PostgresStore};
use hapax_redis::{RedisOptions, RedisStore};
use testkit::{postgres_server, redis_server};

/// Checks that a server's records are listed, found, counted and forgotten as those of a file are.
fn is_shown(place: &str, options: &[&str]) {
    let run = |args: &[&str]| printed(&[&args[..1], &[place], options, &args[1..]].concat());
    let listed = run(&["list", "--format=json"]);
    let mut found: Vec<(String, String)> = Vec::new();
    for line in listed.lines() {
        let listed: serde_json::Value = serde_json::from_str(line).unwrap();
        let (scope, id) = (listed["scope"].as_str().unwrap(), listed["id"].as_str().unwrap());
        let got: serde_json::Value =
            serde_json::from_str(&run(&["get", "--format=json", "--scope", scope, "--", id])).unwrap();
        assert_eq!((&got["id"], &got["state"]), (&listed["id"], &listed["state"]), "{got}");
        found.push((id.to_owned(), listed["state"].as_str().unwrap().to_owned()));
    }
    found.sort();
    let expected = [
        ("\"https://example.com/21\"", "marked"),
        ("0x00ff", "marked"),
        ("eu/20", "completed"),
        ("m-1", "marked"),
        ("order-17", "marked"),
        ("order-18", "claimed"),
        ("order-19", "failed"),
    ];
    assert!(found.pop().is_some_and(|(id, _)| id.starts_with("sha384:")));
    assert_eq!(found, expected.map(|(id, state)| (id.to_owned(), state.to_owned())));

    let got: serde_json::Value =
        serde_json::from_str(&run(&["get", "--format=json", "--scope", "orders", "eu/20"])).unwrap();
    assert_eq!((&got["result"], &got["result_bytes"]), (&"paid".into(), &4.into()));
    assert!(got["token"].as_u64().is_some_and(|token| token > 1_700_000_000_000_000), "{got}");
    let stats: serde_json::Value = serde_json::from_str(&run(&["stats", "--format=json"])).unwrap();
    assert_eq!((&stats["records"], &stats["scopes"][""]["marked"]), (&8.into(), &1.into()));
    let forgotten = run(&["forget", "--scope", "orders", "--state", "marked", "--yes"]);
    assert!(forgotten.ends_with("4 records forgotten\n"), "{forgotten}");
    assert_eq!(run(&["list", "--format=json"]).lines().count(), 4);
}

#[test]
fn redis_is_shown() {
    if redis_server::is_missing() {
        return;
    }
    let server = redis_server::Server::start(&[]);
    let url = server.url();
    wait(async { fill(&RedisStore::connect(RedisOptions::single(url.clone(), "test")).await.unwrap()).await });
    is_shown(&url, &["--namespace", "test"]);
    let without = hapax(&["list", &url]);
    assert_eq!(without.status.code(), Some(2), "{without:?}");
    wait(async {
        let options = RedisOptions::single(url.clone(), "elsewhere");
        fill(&RedisStore::connect(options).await.unwrap()).await;
    });
    is_shown(&url, &["--namespace", "elsewhere"]);
}

#[test]
fn postgres_is_shown() {
    let Some(server) = postgres_server::Server::start(&[]) else { return };
    let words = server.tcp_address("postgres");
    let port = words.split_whitespace().find_map(|word| word.strip_prefix("port=")).expect("a port");
    let url = format!("postgres://postgres@127.0.0.1:{port}/postgres");
    let missing = hapax(&["list", &url, "--namespace", "app.seen"]);
    assert_eq!(missing.status.code(), Some(2), "{missing:?}");
    wait(async {
        let store = PostgresStore::new(PostgresOptions::parse(&url).unwrap(), "seen").unwrap();
        store.migrate().await.unwrap();
        fill(&store).await;
    });
    is_shown(&url, &["--namespace", "seen"]);
    assert_eq!(
        printed(&["list", &words, "--namespace", "seen", "--format=json"]).lines().count(),
        4,
        "an address in words is one, too"
    );
    // This server speaks no TLS: nothing goes on without it.
    let unencrypted = hapax(&["list", &format!("{url}?sslmode=verify-full"), "--namespace", "seen"]);
    let error = String::from_utf8_lossy(&unencrypted.stderr);
    assert!(unencrypted.status.code() == Some(2) && error.contains("does not support TLS"), "{error}");
}
