//! Functions that others call by SQL: they are as documented, and do what the calls in Rust do.

use crate::*;
use hapax_store::StoredId;

const DOCUMENTED: &str = include_str!("../../../src/sql.rs");

/// Returns the functions of the documentation, each with the types of its arguments as the server
/// writes them.
fn documented() -> Vec<(&'static str, String)> {
    let rows = DOCUMENTED.lines().filter_map(|line| line.strip_prefix("//! | `"));
    let functions = rows.flat_map(|row| {
        let mut cells = row.split(" | ");
        let names = cells.next().expect("a name").split('`').filter(|name| !name.is_empty() && *name != ", ");
        let arguments = cells.next().expect("arguments").trim_matches('`').split(", ");
        let types = arguments.map(|one| one.split_once(' ').expect("a type").1.replace("float8", "double precision"));
        let types = types.collect::<Vec<_>>().join(", ");
        names.map(move |name| (name, types.clone()))
    });
    functions.collect()
}

#[test]
fn documented_functions_take_what_is_documented() {
    Place::run(async |place| {
        let (client, functions) = (place.client().await, documented());
        assert!(functions.len() > 15, "{functions:?}");
        let sql = "SELECT count(*), min((SELECT string_agg(format_type(t.oid, NULL), ', ' ORDER BY t.n)
            FROM unnest(p.proargtypes) WITH ORDINALITY AS t(oid, n))) FROM pg_proc p WHERE p.proname = $1";
        for (name, types) in functions {
            let row = client.query_one(sql, &[&format!("{}_{name}", place.prefix)]).await.unwrap();
            let found: (i64, Option<String>) = (row.get(0), row.get(1));
            assert_eq!(found, (1, Some(types)), "{name}");
        }
    });
}

#[test]
fn calls_by_hand_and_calls_in_rust_know_each_others_marks_and_messages() {
    Place::run(async |place| {
        let (mut client, long) = (place.client().await, [7_u8; 200]);
        let once = format!("SELECT {}_once('c', $1)", place.prefix);
        assert!(place.once(&mut client, "c", "rust").await.is_first());
        assert!(place.once(&mut client, "c", long).await.is_first());
        let marked = async |sql: &str, id: &[u8]| client.query_one(sql, &[&id]).await.unwrap().get::<_, Option<i64>>(0);
        assert!(
            marked(&once, b"rust").await.is_some() && marked(&once, StoredId::new(&long).as_bytes()).await.is_some()
        );
        assert!(marked(&once.replace("$1", "sha384($1)"), &long).await.is_some());
        assert_eq!(marked(&once, b"hand").await, None);
        // A transaction that is rolled back has marked nothing.
        client.batch_execute("BEGIN").await.unwrap();
        assert_eq!(marked(&once, b"undone").await, None);
        client.batch_execute("ROLLBACK").await.unwrap();
        assert_eq!(marked(&once, b"undone").await, None);

        let stored = "NULL, '\\x31', '{\"trace\",\"0af7\"}', NULL, NULL, 'paid', NULL, 'order-17'";
        let receive = format!("SELECT {}_inbox_receive('d', $1, $1, {stored})", place.prefix);
        assert_eq!((marked(&receive, b"m").await, marked(&receive, b"m").await.is_some()), (None, true));
        let enqueue = format!("SELECT {}_outbox_store_one('t', $1, {stored})", place.prefix);
        assert!(marked(&enqueue, b"m").await.is_some());
        assert!(!place.once(&mut client, "c", "hand").await.is_first());
        assert!(!place.receive(&mut client, "d", NewMessage::new("m", "1")).await.is_first());

        let keeps = Arc::new(Keeps::default());
        place.publish_all(&client, place.relay(), &keeps).await;
        place.handle_all(&client, place.worker("d"), &keeps).await;
        let taken = keeps.taken();
        for message in &taken {
            let headers = vec![("trace".to_owned(), "0af7".to_owned())];
            let got = (&message.id[..], &message.payload[..], message.kind.as_deref(), message.subject.as_deref());
            assert_eq!((got, &message.headers), ((&b"m"[..], &b"1"[..], Some("paid"), Some("order-17")), &headers));
        }
        assert_eq!(taken.iter().map(|message| &*message.name).collect::<Vec<_>>(), ["t", "d"]);
    });
}
