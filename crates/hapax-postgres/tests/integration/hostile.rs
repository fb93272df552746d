//! An attacker that may make functions and operators in a schema of the search path.

use crate::*;

const COMPARED: [&str; 8] =
    ["boolean", "integer", "bigint", "numeric", "double precision", "text", "bytea", "timestamptz"];
const COUNTED: [(&str, &str); 9] = [
    ("integer", "integer"),
    ("bigint", "integer"),
    ("integer", "bigint"),
    ("bigint", "bigint"),
    ("numeric", "integer"),
    ("numeric", "bigint"),
    ("numeric", "numeric"),
    ("double precision", "integer"),
    ("double precision", "double precision"),
];
const OF_TIME: [(&str, &str, &str, &str); 7] = [
    ("*", "integer", "interval", "interval"),
    ("*", "bigint", "interval", "interval"),
    ("*", "double precision", "interval", "interval"),
    ("+", "timestamptz", "interval", "timestamptz"),
    ("-", "timestamptz", "interval", "timestamptz"),
    ("-", "timestamptz", "timestamptz", "interval"),
    ("||", "text", "text", "text"),
];
const FUNCTIONS: [&str; 14] = [
    "random()",
    "now()",
    "clock_timestamp()",
    "count(bigint)",
    "max(integer)",
    "min(timestamptz)",
    "unnest(bytea[])",
    "unnest(bigint[])",
    "pg_notify(text, text)",
    "date_part(text, timestamptz)",
    "nextval(regclass)",
    "current_setting(text)",
    "pg_advisory_xact_lock(bigint)",
    "pg_get_serial_sequence(text, text)",
];

/// Returns operators that fit as well as PostgreSQL's own, and come before them: with their
/// operands and results.
fn operators() -> Vec<(&'static str, &'static str, &'static str, &'static str)> {
    let compared = COMPARED
        .into_iter()
        .flat_map(|of| ["=", "<>", "<", "<=", ">", ">="].map(|operator| (operator, of, of, "boolean")));
    let counted = COUNTED.into_iter().flat_map(|(left, right)| {
        let of = if left == "integer" { right } else { left };
        ["+", "-", "*", "/"].map(|operator| (operator, left, right, of))
    });
    compared.chain(counted).chain(OF_TIME).collect()
}

/// Makes them all, as a role that may make things in a schema of the victim's path. Each has a
/// sequence, which advances whatever becomes of the transaction that it is run in.
async fn lay_traps(place: &Place, admin: &Client) {
    let roles = "CREATE SCHEMA {p}; CREATE SCHEMA {p}_trap; CREATE ROLE {p}_thief LOGIN; CREATE ROLE {p}_victim LOGIN; \
         GRANT CREATE, USAGE ON SCHEMA {p} TO {p}_victim; GRANT USAGE ON SCHEMA {p}_trap TO PUBLIC; \
         GRANT CREATE ON SCHEMA {p}_trap TO {p}_thief; SET ROLE {p}_thief";
    place.execute(admin, roles).await;
    let (mut sql, mut traps) = (String::new(), 0);
    let mut trap = |sql: &mut String, what: &str| {
        traps += 1;
        let caught = format!("{{p}}_trap.caught_{traps}");
        let made = format!(
            "CREATE SEQUENCE {caught}; COMMENT ON SEQUENCE {caught} IS '{what}'; \
             GRANT USAGE ON SEQUENCE {caught} TO PUBLIC; "
        );
        sql.push_str(&made);
        (format!("PERFORM pg_catalog.nextval('{caught}'::pg_catalog.regclass);"), traps)
    };
    for (operator, left, right, result) in operators() {
        let (caught, n) = trap(&mut sql, &format!("{left} {operator} {right}"));
        let made = format!(
            "CREATE FUNCTION {{p}}_trap.o{n}(a {left}, b {right}) RETURNS {result} LANGUAGE plpgsql AS $$ BEGIN {caught} \
             RETURN a OPERATOR(pg_catalog.{operator}) b; END $$; CREATE OPERATOR {{p}}_trap.{operator} \
             (LEFTARG = {left}, RIGHTARG = {right}, FUNCTION = {{p}}_trap.o{n}); "
        );
        sql.push_str(&made);
    }
    for function in FUNCTIONS {
        let (caught, _) = trap(&mut sql, function);
        let made = format!(
            "CREATE FUNCTION {{p}}_trap.{function} RETURNS text LANGUAGE plpgsql AS $$ BEGIN {caught} RETURN '1'; END $$; "
        );
        sql.push_str(&made);
    }
    place.execute(admin, &format!("{sql} RESET ROLE")).await;
    let path = "ALTER ROLE {p}_victim SET search_path = {p}_trap, pg_catalog, {p}, public";
    place.execute(admin, path).await;
}

async fn caught(place: &Place, admin: &Client) -> Vec<String> {
    let sql = "SELECT obj_description(format('%I.%I', schemaname, sequencename)::regclass) FROM pg_sequences \
         WHERE schemaname = $1 AND last_value IS NOT NULL";
    let rows = admin.query(sql, &[&format!("{}_trap", place.prefix)]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

#[test]
fn nothing_of_somebody_elses_in_the_search_path_is_run() {
    Place::run(async |place| {
        let admin = place.client().await;
        lay_traps(&place, &admin).await;
        let victims = place.server.address().replace("user=postgres", &format!("user={}_victim", place.prefix));
        let mut victim = client(&victims).await;
        victim.batch_execute("SELECT 1 WHERE 'a'::text = 'a'").await.unwrap();
        assert_eq!(caught(&place, &admin).await, ["text = text"], "the traps work");
        admin.batch_execute(&format!("ALTER SEQUENCE {}_trap.caught_31 RESTART", place.prefix)).await.unwrap();
        assert!(caught(&place, &admin).await.is_empty());
        let tables = Tables::new(&place.prefix, "t").unwrap();
        tables.migrate(&victim).await.unwrap();

        for _ in 0..2 {
            let mut tx = victim.transaction().await.unwrap();
            let message = NewMessage::new("m", "payload").key("k").kind("paid").subject("order-17");
            let mark = inbox::NewMark::new("m").kind("paid").subject("order-17").processor("p");
            let _ = inbox::mark(&mut tx, &tables, "f", mark).await.unwrap();
            let marks = [mark, inbox::NewMark::new("n").kind("paid"), mark];
            let _ = inbox::mark_batch(&mut tx, &tables, "g", &marks).await.unwrap();
            inbox::forget(&mut tx, &tables, "g", &["n", "none"]).await.unwrap();
            let _ = inbox::once(&mut tx, &tables, "c", "m").await.unwrap();
            let _ = inbox::receive(&mut tx, &tables, "d", message).await.unwrap();
            let _ = inbox::receive(&mut tx, &tables, "d", NewMessage::new("n", "payload")).await.unwrap();
            outbox::enqueue(&mut tx, &tables, "t", message).await.unwrap();
            tx.commit().await.unwrap();
        }
        let due = format!("UPDATE {}.t_mark_buckets SET opened_at = '-infinity'", place.prefix);
        admin.batch_execute(&due).await.unwrap();
        assert_eq!(Retention::new(HOUR, HOUR).unwrap().expire(&victim, &tables).await.unwrap().begun, 1);
        let mut tx = victim.transaction().await.unwrap();
        let seen = inbox::once_batch(&mut tx, &tables, "c", &["m", "o", "o"]).await.unwrap();
        assert_eq!(seen.iter().filter(|seen| seen.is_first()).count(), 1);
        let batch = [NewMessage::new("a", "").key("k"), NewMessage::new("b", "")];
        outbox::enqueue_batch(&mut tx, &tables, "t", &batch).await.unwrap();
        tx.commit().await.unwrap();
        let worker = Worker::new(options(&victims), tables.clone(), "d").unwrap().retry(soon(Some(1)));
        worker.step(&Arc::new(Fails)).await.unwrap();
        let letters = inbox::dead_letters(&victim, &tables, None, 0, 10).await.unwrap();
        assert!(!letters.is_empty());
        assert!(inbox::requeue(&victim, &tables, Letters::These(&letters[..1])).await.unwrap() > 0);

        let ids = ["m", "n"].map(|id| NewMessage::new(id, "").key("k"));
        let mut tx = victim.transaction().await.unwrap();
        for message in ids {
            let _ = inbox::receive(&mut tx, &tables, "e", message).await.unwrap();
        }
        tx.commit().await.unwrap();
        let worker = Worker::new(options(&victims), tables.clone(), "e").unwrap();
        let worker = worker.keep(Keep::Messages).processor("p").unwrap();
        assert_eq!(worker.step(&Arc::new(Takes(tables.clone()))).await.unwrap(), 2);
        let query = inbox::HandledQuery::of_subject("order-17").consumer("f").kind("paid").processor("p");
        assert_eq!(inbox::handled(&victim, &tables, query).await.unwrap().len(), 1);
        let finished = inbox::Finished::Ids("e", &[b"m".to_vec(), b"n".to_vec()]);
        assert_eq!(inbox::requeue_handled(&victim, &tables, finished).await.unwrap(), 2);
        let month = Duration::from_secs(30 * 86_400);
        inbox::discard(&victim, &tables, Letters::OlderThan(None, month)).await.unwrap();
        inbox::backlog(&victim, &tables, Some("d")).await.unwrap();

        let caught = caught(&place, &admin).await;
        assert!(caught.is_empty(), "a victim ran {caught:?}");
    });
}

struct Fails;

impl Handler for Fails {
    async fn handle(&self, _: &mut tokio_postgres::Transaction<'_>, _: &Message) -> Result<(), BoxError> {
        Err("no".into())
    }
}

struct Takes(Tables);

impl Handler for Takes {
    async fn handle(&self, tx: &mut tokio_postgres::Transaction<'_>, message: &Message) -> Result<(), BoxError> {
        assert!(inbox::keep_result(tx, &self.0, message, "done").await?);
        Ok(())
    }
}
