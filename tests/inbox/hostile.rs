//! Somebody who may make functions and operators in a schema of the search path.

use crate::*;

/// Operators and functions that fit better than PostgreSQL's own, or stand in front of them.
const OPERATORS: [(&str, &str, &str); 12] = [
    ("*", "numeric", "integer"),
    ("*", "integer", "interval"),
    ("*", "bigint", "interval"),
    ("*", "double precision", "interval"),
    ("/", "double precision", "integer"),
    ("+", "integer", "integer"),
    ("+", "timestamptz", "interval"),
    ("-", "timestamptz", "timestamptz"),
    ("=", "text", "text"),
    ("=", "bytea", "bytea"),
    ("=", "bigint", "bigint"),
    ("<=", "timestamptz", "timestamptz"),
];
const FUNCTIONS: [&str; 10] = [
    "random()",
    "now()",
    "clock_timestamp()",
    "count(bigint)",
    "max(integer)",
    "unnest(bytea[])",
    "pg_notify(text, text)",
    "extract(text, timestamptz)",
    "coalesce(text, text)",
    "current_setting(text)",
];

/// Makes them all in the schema `trap` as `{p}_thief`: whoever runs one leaves a trace.
async fn lay_traps(place: &Place, admin: &Client) {
    let roles = "CREATE SCHEMA {p}; CREATE SCHEMA {p}_trap; CREATE ROLE {p}_thief LOGIN; \
         CREATE ROLE {p}_victim LOGIN; GRANT CREATE, USAGE ON SCHEMA {p} TO {p}_victim; \
         GRANT USAGE ON SCHEMA {p}_trap TO PUBLIC; GRANT CREATE ON SCHEMA {p}_trap TO {p}_thief; \
         CREATE TABLE {p}_caught (what text); GRANT INSERT ON {p}_caught TO PUBLIC; SET ROLE {p}_thief";
    place.execute(admin, roles).await;
    for (n, (operator, left, right)) in OPERATORS.into_iter().enumerate() {
        let result = match operator {
            "=" | "<=" => "boolean",
            _ if right == "interval" && left != "timestamptz" => "interval",
            _ => left,
        };
        let sql = format!(
            "CREATE FUNCTION {{p}}_trap.o{n}(a {left}, b {right}) RETURNS {result} LANGUAGE plpgsql AS $$ \
             BEGIN INSERT INTO public.{{p}}_caught VALUES ('{left} {operator} {right}'); \
             RETURN a OPERATOR(pg_catalog.{operator}) b; END $$; \
             CREATE OPERATOR {{p}}_trap.{operator} (LEFTARG = {left}, RIGHTARG = {right}, \
             FUNCTION = {{p}}_trap.o{n})"
        );
        place.execute(admin, &sql).await;
    }
    for function in FUNCTIONS {
        let sql = format!(
            "CREATE FUNCTION {{p}}_trap.{} RETURNS text LANGUAGE plpgsql AS $$ \
             BEGIN INSERT INTO public.{{p}}_caught VALUES ($f${function}$f$); RETURN '1'; END $$",
            function.replacen("extract", "\"extract\"", 1).replacen("coalesce", "\"coalesce\"", 1)
        );
        place.execute(admin, &sql).await;
    }
    place.execute(admin, "RESET ROLE").await;
}

#[test]
fn nothing_of_somebody_elses_in_the_search_path_is_run() {
    Place::run(async |place| {
        let admin = place.client().await;
        lay_traps(&place, &admin).await;
        let victims = place.server.address().replace("user=postgres", &format!("user={}_victim", place.prefix));
        let path = format!("SET search_path = {0}_trap, pg_catalog, {0}, public", place.prefix);
        let mut victim = client(&victims).await;
        victim.batch_execute(&path).await.unwrap();
        let tables = Tables::new(&place.prefix, "t").unwrap();
        tables.migrate(&victim).await.unwrap();

        for _ in 0..2 {
            let mut tx = victim.transaction().await.unwrap();
            let message = NewMessage::new("m", "payload").key("k");
            let _ = inbox::once(&mut tx, &tables, "c", "m").await.unwrap();
            let _ = inbox::receive(&mut tx, &tables, "d", message).await.unwrap();
            let _ = inbox::receive(&mut tx, &tables, "d", NewMessage::new("n", "payload")).await.unwrap();
            outbox::enqueue(&mut tx, &tables, "t", message).await.unwrap();
            tx.commit().await.unwrap();
        }
        let own = format!("UPDATE {}.t_mark_buckets SET opened_at = '-infinity'", place.prefix);
        victim.batch_execute(&own).await.unwrap();
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
        assert!(inbox::requeue(&victim, &tables, Letters::At(&[letters[0].position])).await.unwrap() > 0);

        let caught = "SELECT DISTINCT what FROM public.{p}_caught";
        let caught = admin.query(&caught.replace("{p}", &place.prefix), &[]).await.unwrap();
        let caught: Vec<String> = caught.iter().map(|row| row.get(0)).collect();
        assert!(caught.is_empty(), "a victim ran {caught:?}");
    });
}

struct Fails;

impl Handler for Fails {
    async fn handle(&self, _: &mut tokio_postgres::Transaction<'_>, _: &Message) -> Result<(), Failure> {
        Err("no".into())
    }
}
