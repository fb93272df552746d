//! `hapax store handled`, from outside, on a PostgreSQL server of the test's own. Without
//! PostgreSQL it says SKIPPED.

use hapax_postgres::inbox::NewMark;
use hapax_postgres::{PostgresOptions, Tables, inbox};
use std::process::{Command, Output};
use testkit::postgres_server::Server;

fn handled(address: &str, options: &[&str]) -> Output {
    super::hapax(&[&["handled", address], options].concat())
}

fn out(output: &Output) -> String {
    assert_eq!((output.status.code(), error(output).as_str()), (Some(0), ""));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn error(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Makes tables, and marks five events.
async fn make(address: &str) {
    let mut client = PostgresOptions::parse(address).unwrap().connect().await.unwrap();
    let tables = Tables::new("public", "shop").unwrap();
    tables.migrate(&client).await.unwrap();
    let mut tx = client.transaction().await.unwrap();
    for (id, consumer, subject) in [
        (&b"m-1"[..], "billing", "order-17"),
        (b"m-1", "shipping", "order-17"),
        (b"m-2", "billing", "order-18"),
        (b"\xff\x00", "billing", "order-17"),
        ("m\u{202e}3".as_bytes(), "\u{2066}away", "order-\u{202e}19"),
    ] {
        let mark = NewMark::new(id).kind("order.paid").source("/orders").subject(subject).processor("pod-0");
        assert!(inbox::mark(&mut tx, &tables, consumer, mark).await.unwrap().is_first());
    }
    tx.commit().await.unwrap();
}

#[test]
fn who_handled_the_events_of_a_subject_is_printed() {
    let Some(server) = Server::shared() else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(make(&server.address()));
    let handled = |options: &[&str]| handled(&server.address(), &[&["--namespace", "public.shop"], options].concat());

    let table = out(&handled(&["--subject", "order-17"]));
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        lines[0],
        ["number", "handled", "at", "consumer", "processor", "kind", "subject", "id", "attempts", "state"]
    );
    let rows: Vec<_> = lines[1..].iter().map(|cells| (cells[2], cells[3], cells[4], cells[5], cells[6])).collect();
    let of = |consumer, id| (consumer, "pod-0", "order.paid", "order-17", id);
    assert_eq!(rows, [of("billing", "m-1"), of("shipping", "m-1"), of("billing", "0xff00")]);
    assert_eq!(out(&handled(&["--subject", "order-1"])), "nothing was handled that is still known\n");

    // In pages, as JSON.
    let mut behind = "0".to_owned();
    let mut ids = Vec::new();
    loop {
        let page = out(&handled(&["--consumer", "billing", "--limit", "2", "--behind", &behind, "--format=json"]));
        let page: serde_json::Value = serde_json::from_str(&page).unwrap();
        for event in page["events"].as_array().unwrap() {
            assert_eq!((&event["source"], &event["kept"]), (&"/orders".into(), &false.into()));
            assert!(event["handled_at"].as_str().unwrap().starts_with("20"), "{event}");
            ids.push(event["id"].as_str().or(event["id_hex"].as_str()).unwrap().to_owned());
        }
        match page["next"].as_i64() {
            Some(next) => behind = next.to_string(),
            None => break,
        }
    }
    assert_eq!(ids, ["m-1", "m-2", "ff00"]);
    let page = out(&handled(&["--kind", "order.paid", "--processor", "pod-0", "--limit", "1"]));
    assert!(page.contains("there are more: --behind "), "{page}");

    for (options, code, what) in [
        (&["--namespace", "Shop x"][..], 2, "Shop x"),
        (&[], 2, "--namespace NAME is needed"),
        (&["--namespace", "shop", "--subject", ""], 2, "a subject of 1 to 1024 bytes"),
        (&["--limit", "0"], 2, "0"),
    ] {
        let output = self::handled(&server.address(), options);
        assert!(output.status.code() == Some(code) && error(&output).contains(what), "{options:?}: {output:?}");
    }
    let none = self::handled(&server.address(), &["--namespace", "public.none"]);
    assert!(none.status.code() == Some(2) && error(&none).contains("Tables::migrate"), "{none:?}");
    let away = self::handled("host=127.0.0.1 port=1 user=a", &["--namespace", "shop"]);
    assert_eq!(away.status.code(), Some(1), "{away:?}");
    let by_variable = Command::new(env!("CARGO_BIN_EXE_hapax"))
        .env("DATABASE_URL", server.address())
        .args(["store", "handled", "env:DATABASE_URL", "--namespace", "shop", "--subject", "order-18"])
        .output();
    assert!(out(&by_variable.unwrap()).contains("m-2"));

    // What others have chosen does nothing to a terminal.
    let hostile = ["--subject", "order-\u{202e}19"];
    let table = out(&handled(&hostile));
    assert!(table.contains("\\u{2066}away") && table.contains("order-\\u{202e}19  m\\u{202e}3"), "{table}");
    let json = out(&handled(&[&hostile[..], &["--format=json"]].concat()));
    assert!(![&table, &json].iter().any(|text| text.contains(['\u{202e}', '\u{2066}'])), "{table} {json}");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["events"][0]["id"], &json["events"][0]["consumer"]),
        (&"m\u{202e}3".into(), &"\u{2066}away".into())
    );
}
