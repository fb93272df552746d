//! An attacker that may make anything in the tables' own schema and in those of the search path.

mod traps;

use crate::store::Postgres;
use crate::*;
use hapax_postgres::Layout;
use hapax_store::{ErrorKind, Store as _};
use hapax_testing::store::verify_store;
use traps::{fallen, laid, lay, reset};

/// Returns the address of the attacker's victim.
fn victims(place: &Place) -> String {
    place.server.address().replace("user=postgres", &format!("user={}_victim", place.prefix))
}

async fn nothing_fell(place: &Place, admin: &Client, doing: &str) {
    let fallen = fallen(place, admin).await;
    assert_eq!(fallen, (0, Vec::new()), "{doing}");
}

/// Checks that a trap of each kind works before anything of hapax is called.
#[test]
fn traps_of_each_kind_work() {
    Place::run_alone(async |place| {
        let admin = place.client().await;
        lay(&place, &admin).await;
        let laid = laid(&place, &admin).await;
        println!("operators, functions, overloads of ours: {laid:?}");
        assert!(laid.iter().all(|laid| *laid >= 300), "{laid:?}");
        let victim = client(&victims(&place)).await;
        for (sql, what) in [
            ("SELECT 1 WHERE 'a'::pg_catalog.text = 'a'", "text = text"),
            ("SELECT extract(epoch FROM pg_catalog.now()) * 1000000", "numeric * integer"),
            ("SELECT clock_timestamp()", "clock_timestamp()"),
            ("SELECT * FROM unnest(ARRAY['a'::pg_catalog.bytea])", "unnest("),
            ("SELECT 'a'::text", "the type text"),
            ("SELECT {p}.t_once('c', 'm')", "t_once(text, text)"),
            ("SELECT {p}.t_inbox_store_one('c', '', '', '', '', NULL, NULL, NULL, NULL, NULL)", "t_inbox_store_one("),
        ] {
            // Most cannot be answered, after the trap.
            let _ = victim.batch_execute(&sql.replace("{p}", &place.prefix)).await;
            let (fell, known) = fallen(&place, &admin).await;
            assert!(fell > 0 && known.iter().all(|known| known.contains(what)), "{sql}: {fell} fell, {known:?}");
            reset(&place, &admin).await;
        }
    });
}

#[test]
fn nothing_of_somebody_elses_is_run_by_inbox_and_outbox() {
    Place::run_alone(async |place| {
        let admin = place.client().await;
        lay(&place, &admin).await;
        let mut victim = client(&victims(&place)).await;
        // Types of the session's own are found before those of the path.
        victim.batch_execute("CREATE TEMP TABLE text (a int); CREATE TEMP TABLE bytea (a int)").await.unwrap();
        let tables = Tables::new(&place.prefix, "t").unwrap();
        tables.migrate(&victim).await.unwrap();
        nothing_fell(&place, &admin, "migrate").await;
        for _ in 0..2 {
            mark_and_enqueue(&tables, &mut victim).await;
        }
        nothing_fell(&place, &admin, "mark, receive, enqueue").await;

        grow_older(&place, &admin).await;
        assert_eq!(Retention::new(HOUR, HOUR).unwrap().expire(&victim, &tables).await.unwrap().begun, 1);
        nothing_fell(&place, &admin, "rotate").await;
        let mut tx = victim.transaction().await.unwrap();
        let seen = inbox::once_batch(&mut tx, &tables, "c", &["m", "o", "o"]).await.unwrap();
        assert_eq!(seen.iter().filter(|seen| seen.is_first()).count(), 1);
        inbox::forget(&mut tx, &tables, "c", &["m", "none"]).await.unwrap();
        let batch = [NewMessage::new("a", "").key("k"), NewMessage::new("b", "")];
        outbox::enqueue_batch(&mut tx, &tables, "t", &batch).await.unwrap();
        outbox::capture(&mut tx, &tables, "t", &[NewMessage::new("a", "").kind("k")]).await.unwrap();
        tx.commit().await.unwrap();
        outbox::expire_captured(&victim, &tables, Duration::ZERO).await.unwrap();
        nothing_fell(&place, &admin, "batches").await;

        work_off(&place, &tables, &mut victim).await;
        nothing_fell(&place, &admin, "worker, relay and letters").await;
        let retention = Retention::new(HOUR, HOUR).unwrap();
        for _ in 0..3 {
            grow_older(&place, &admin).await;
            retention.expire(&victim, &tables).await.unwrap();
        }
        nothing_fell(&place, &admin, "more rotations").await;
    });
}

async fn grow_older(place: &Place, admin: &Client) {
    let due = "UPDATE {p}.t_mark_buckets SET opened_at = '-infinity', closed_at = '-infinity' WHERE true";
    place.execute(admin, due).await;
}

async fn mark_and_enqueue(tables: &Tables, victim: &mut Client) {
    let mut tx = victim.transaction().await.unwrap();
    let message = NewMessage::new("m", "payload").key("k").kind("paid").subject("order-17");
    let mark = inbox::NewMark::new("m").kind("paid").subject("order-17").processor("p");
    let _ = inbox::mark(&mut tx, tables, "f", mark).await.unwrap();
    let short = inbox::NewMark::new("short").keep_for(ms(1));
    let marks = [mark, inbox::NewMark::new("n").kind("paid"), mark, short];
    let _ = inbox::mark_batch(&mut tx, tables, "g", &marks).await.unwrap();
    inbox::forget(&mut tx, tables, "g", &["n", "none"]).await.unwrap();
    let _ = inbox::once(&mut tx, tables, "c", "m").await.unwrap();
    let _ = inbox::receive(&mut tx, tables, "d", message).await.unwrap();
    for kept in [short, short.keep_for(ms(2)), short.kind("paid")] {
        let _ = inbox::mark(&mut tx, tables, "h", kept).await.unwrap();
        // One of them meets a mark that is over, if not this time, the next.
        let _ = inbox::mark_batch(&mut tx, tables, "h", &[kept, short]).await.unwrap();
    }
    for (payload, how) in [("a", OnMismatch::Drop), ("b", OnMismatch::Handle), ("c", OnMismatch::DeadLetter)] {
        let message = NewMessage::new("compared", payload).key("k");
        let _ = inbox::receive_compared(&mut tx, tables, "i", message, payload, how).await.unwrap();
    }
    let _ = inbox::receive(&mut tx, tables, "d", NewMessage::new("n", "payload")).await.unwrap();
    for id in ["m", "n"] {
        let _ = inbox::receive(&mut tx, tables, "e", NewMessage::new(id, "").key("k")).await.unwrap();
    }
    outbox::enqueue(&mut tx, tables, "t", message.headers(&[("a", "b")])).await.unwrap();
    let later = NewMessage::new("l", "").key("l").due_at(std::time::SystemTime::UNIX_EPOCH);
    outbox::enqueue(&mut tx, tables, "t", later).await.unwrap();
    tx.commit().await.unwrap();
}

async fn work_off(place: &Place, tables: &Tables, victim: &mut Client) {
    let address = victims(place);
    let worker = Worker::new(options(&address), tables.clone(), "d").unwrap().retry(soon(Some(1)));
    worker.step(&Arc::new(Fails)).await.unwrap();
    let letters = inbox::dead_letters(victim, tables, None, 0, 10).await.unwrap();
    assert!(inbox::requeue(victim, tables, Letters::These(&letters[..1])).await.unwrap() > 0);
    let worker = Worker::new(options(&address), tables.clone(), "e").unwrap();
    let worker = worker.keep(Keep::Messages).processor("p").unwrap();
    assert_eq!(worker.step(&Arc::new(Takes(tables.clone()))).await.unwrap(), 2);
    let query = inbox::HandledQuery::of_subject("order-17").consumer("f").kind("paid").processor("p");
    assert_eq!(inbox::handled(victim, tables, query).await.unwrap().len(), 1);
    let finished = inbox::Finished::Ids("e", &[b"m".to_vec(), b"n".to_vec()]);
    assert_eq!(inbox::requeue_handled(victim, tables, finished).await.unwrap(), 2);
    let month = Duration::from_secs(30 * 86_400);
    inbox::discard(victim, tables, Letters::OlderThan(None, month)).await.unwrap();
    inbox::backlog(victim, tables, Some("d")).await.unwrap();

    // One that fails until its topic pauses and is probed; then one that publishes all.
    let relay = Relay::new(options(&address), tables.clone()).poll(ms(20)).unwrap().retry(soon(Some(2)));
    let done = until("letters", async || outbox::backlog(victim, tables, None).await.unwrap().dead >= 3);
    relay.run(Arc::new(Fails), done).await.unwrap();
    let letters = outbox::dead_letters(victim, tables, Some("t"), 0, 10).await.unwrap();
    outbox::discard(victim, tables, Letters::These(&letters[..1])).await.unwrap();
    assert!(outbox::requeue(victim, tables, Letters::Of(Some("t"))).await.unwrap() > 0);
    let relay = Relay::new(options(&address), tables.clone()).poll(ms(20)).unwrap();
    let done = until("all published", async || outbox::backlog(victim, tables, None).await.unwrap().waiting == 0);
    relay.run(Arc::new(Nothing), done).await.unwrap();
}

/// Checks that what has the name of a table, or of a partition that is still to be made, is not
/// taken for it.
#[test]
fn what_only_has_the_name_of_a_table_is_neither_read_nor_written() {
    Place::run_alone(async |place| {
        let admin = place.client().await;
        lay(&place, &admin).await;
        let mut victim = client(&victims(&place)).await;
        let tables = Tables::new(&place.prefix, "t").unwrap();
        let made = [
            "CREATE VIEW {p}.t_flow_migrations AS SELECT 1 AS version WHERE {p}_trap.fall('a view')",
            "CREATE TABLE {p}.t_inbox (position bigint)",
            "CREATE TABLE {p}.t_loot (a int); CREATE INDEX t_inbox_id ON {p}.t_loot (a)",
            "CREATE SEQUENCE {p}.t_handled_number",
            "CREATE FUNCTION {p}.t_once(consumer text, id bytea) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN \
             PERFORM {p}_trap.fall('once'); RETURN NULL; END $$",
        ];
        let unmade = [
            "VIEW t_flow_migrations",
            "TABLE t_inbox",
            "TABLE t_loot",
            "SEQUENCE t_handled_number",
            "FUNCTION t_once(text, bytea)",
        ];
        for (made, unmade) in made.into_iter().zip(unmade) {
            place.execute(&admin, &format!("SET ROLE {{p}}_thief; {made}; RESET ROLE")).await;
            let error = tables.migrate(&victim).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misconfigured, "{unmade}: {error}");
            let said = format!("{error} {:?}", std::error::Error::source(&error));
            assert!(said.contains("t_"), "{unmade}: {said}");
            // A superuser would go on with what others own.
            let error = tables.migrate(&admin).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misconfigured, "{unmade} as a superuser: {error}");
            nothing_fell(&place, &admin, unmade).await;
            let (kind, name) = unmade.split_once(' ').unwrap();
            place.execute(&admin, &format!("DROP {kind} {{p}}.{name}")).await;
        }
        tables.migrate(&victim).await.unwrap();

        let view =
            "SET ROLE {p}_thief; CREATE VIEW {p}.{slot} AS SELECT 1 AS slot WHERE {p}_trap.fall('a view'); RESET ROLE";
        let retention = Retention::new(HOUR, HOUR).unwrap();
        for slot in ["t_marks_2", "t_handled_2"] {
            place.execute(&admin, &view.replace("{slot}", slot)).await;
            grow_older(&place, &admin).await;
            let error = retention.expire(&victim, &tables).await.unwrap_err();
            let said = format!("{error} {:?}", std::error::Error::source(&error));
            assert!(error.kind() == ErrorKind::Misconfigured && said.contains(slot), "{said}");
            nothing_fell(&place, &admin, slot).await;
            // Ids are marked as before.
            let mut tx = victim.transaction().await.unwrap();
            assert!(inbox::once(&mut tx, &tables, "c", slot).await.unwrap().is_first());
            tx.commit().await.unwrap();
            place.execute(&admin, &format!("DROP VIEW {{p}}.{slot}")).await;
        }
        assert_eq!(retention.expire(&victim, &tables).await.unwrap().begun, 1);
    });
}

fn store_options(place: &Place, layout: Layout) -> PostgresOptions {
    let options = options(&victims(place)).layout(layout);
    options.timeout(Duration::from_secs(20)).unwrap().partition(Duration::from_secs(600)).unwrap()
}

/// Goes through the whole contract of stores as the victim.
fn keeps_the_contract(layout: Layout, is_pooled: bool) {
    Place::run_alone(async |place| {
        let admin = place.client().await;
        lay(&place, &admin).await;
        let options = store_options(&place, layout);
        let options = if is_pooled { options.pooled() } else { options };
        let store = PostgresStore::new(options.clone(), &format!("{}.s", place.prefix)).unwrap();
        store.migrate().await.unwrap();
        nothing_fell(&place, &admin, "migrate").await;
        let namespace = format!("{}.s", place.prefix);
        let fixture = Postgres { options, namespace, client: place.client().await };
        verify_store(&fixture).await.unwrap();
        nothing_fell(&place, &admin, "the contract").await;
    });
}

#[test]
fn nothing_of_somebody_elses_is_run_by_the_store() {
    keeps_the_contract(Layout::Shared, false);
}

#[test]
fn nothing_of_somebody_elses_is_run_by_the_store_behind_a_pooler() {
    keeps_the_contract(Layout::PerScope, true);
}

#[test]
fn what_only_has_the_name_of_a_table_of_the_store_is_neither_read_nor_written() {
    Place::run_alone(async |place| {
        let admin = place.client().await;
        lay(&place, &admin).await;
        let store = PostgresStore::new(store_options(&place, Layout::Shared), &format!("{}.s", place.prefix)).unwrap();
        let trap = "SELECT 1 AS version, 'shared' AS layout WHERE {p}_trap.fall('a view')";
        for name in ["s_migrations", "s_scopes", "s_records", "s_0_1"] {
            place
                .execute(&admin, &format!("SET ROLE {{p}}_thief; CREATE VIEW {{p}}.{name} AS {trap}; RESET ROLE"))
                .await;
            let error = store.migrate().await.unwrap_err();
            let said = format!("{error} {:?}", std::error::Error::source(&error));
            assert!(error.kind() == ErrorKind::Misconfigured && said.contains("s_"), "{said}");
            nothing_fell(&place, &admin, name).await;
            place.execute(&admin, &format!("DROP VIEW {{p}}.{name}")).await;
        }
        store.migrate().await.unwrap();
        place.execute(&admin, &format!("SET ROLE {{p}}_thief; CREATE VIEW {{p}}.s_0_2 AS {trap}; RESET ROLE")).await;
        let key = hapax_store::RecordKey::new(&hapax_store::Scope::default(), "m");
        store.mark(&[hapax_store::Mark { key, attempt: 1, retention: HOUR }]).await.unwrap();
        let due = "UPDATE {p}.s_buckets SET opened_at = opened_at - interval '700 s'";
        place.execute(&admin, due).await;
        let error = store.expire(10).await.unwrap_err();
        assert!(error.kind() == ErrorKind::Misconfigured, "{error}");
        nothing_fell(&place, &admin, "a partition").await;
    });
}

struct Fails;

impl Handler for Fails {
    async fn handle(&self, _: &mut tokio_postgres::Transaction<'_>, _: &Message) -> Result<(), BoxError> {
        Err("no".into())
    }
}

impl Publisher for Fails {
    async fn publish(&self, _: &Message) -> Result<(), BoxError> {
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
