//! A pooler of transactions in between: each transaction may be on another connection of the
//! server, and anything left on one is found by its next user.

use super::*;
use crate::pooler::{Pooler, left_behind, settings_of};
use hapax_store::TieredDedup;

/// The connections of the pooler to the server: fewer than the clients that ask at a time.
const CONNECTIONS: usize = 3;

fn options(pooler: &Pooler) -> PostgresOptions {
    let options = PostgresOptions::parse(&pooler.address()).expect("an address");
    options.timeout(Duration::from_secs(20)).expect("a timeout")
}

fn suite(table: &str, layout: Layout) {
    let Some(server) = shared() else { return };
    let Some(pooler) = Pooler::start(&server, CONNECTIONS, &[]) else { return };
    suite_by(&server, options(&pooler), table, layout);
}

#[test]
fn the_suite_passes_through_a_pooler_of_transactions() {
    suite("pooled", Layout::Shared);
}

#[test]
fn the_suite_passes_through_a_pooler_with_a_table_for_each_scope() {
    suite("pooled_single", Layout::PerScope);
}

/// Lets several engines work on the same ids: each id is worked on once, and the server's
/// connections are afterwards as others expect them.
#[test]
fn engines_behind_a_pooler_do_nothing_twice_and_leave_no_setting() {
    // One pooler refuses unknown settings in a connection's first message, and one ignores them.
    for (table, settings) in [("refused", &[][..]), ("ignored", &["ignore_startup_parameters = options"])] {
        let Some(server) = Server::start(&["fsync=off"]) else { return };
        let Some(pooler) = Pooler::start(&server, CONNECTIONS, settings) else { return };
        runtime().block_on(async {
            let untouched = settings_of(&client(&server.tcp_address("postgres")).await).await;
            store(options(&pooler), table).migrate().await.expect("tables");
            let worked = Arc::new((0..60).map(|_| AtomicU64::new(0)).collect::<Vec<_>>());
            let mut engines = JoinSet::new();
            for _ in 0..4 {
                let store = store(options(&pooler), table);
                let dedup = TieredDedup::builder(store).retention(HOUR).build().await.expect("an engine");
                engines.spawn(work(dedup, Arc::clone(&worked)));
            }
            engines.join_all().await;
            for (id, times) in worked.iter().enumerate() {
                assert_eq!(times.load(Ordering::Relaxed), 1, "{id} was worked on so many times");
            }
            let store = store(options(&pooler), table);
            store.expire(4).await.expect("nothing to do");
            store.scan(None, 10).await.expect("a page");
            assert_eq!(left_behind(&pooler, CONNECTIONS, &untouched).await, Vec::<String>::new());
        });
    }
}

/// Claims each id, works on it if no other engine does, and completes it; in batches, too.
async fn work(dedup: TieredDedup<PostgresStore>, worked: Arc<Vec<AtomicU64>>) {
    let mut callers = JoinSet::new();
    for id in 0..worked.len() {
        let (dedup, worked) = (dedup.clone(), Arc::clone(&worked));
        callers.spawn(async move {
            let claim = dedup.claim(format!("worked on {id}")).await.expect("an answer");
            if let Some(claim) = claim.claimed() {
                worked[id].fetch_add(1, Ordering::Relaxed);
                claim.complete().await.expect("completed");
            }
            let _ = dedup.check(format!("checked {id}")).await.expect("an answer");
        });
    }
    callers.join_all().await;
}

/// Checks that a prepared statement that is not there any more does not end a run: the next call
/// works.
#[test]
fn a_prepared_statement_that_is_gone_is_made_again() {
    let Some(server) = shared() else { return };
    runtime().block_on(async {
        let options = super::options(&server).connections(1).unwrap();
        store(options.clone(), "dealloc").migrate().await.expect("tables");
        // A transaction that inserts a scope has no prepared statements any more, as on another
        // connection.
        let admin = client(&server.address()).await;
        admin
            .batch_execute(
                "CREATE FUNCTION forget() RETURNS trigger LANGUAGE plpgsql AS \
                 $$ BEGIN EXECUTE 'DEALLOCATE ALL'; RETURN NULL; END $$; \
                 CREATE TRIGGER forget AFTER INSERT ON dealloc_scopes EXECUTE FUNCTION forget()",
            )
            .await
            .expect("a trigger");
        let pooled = store(options.clone().pooled(), "dealloc");
        let store = store(options, "dealloc");
        let in_scope =
            |scope: &str| Mark { key: RecordKey::new(&Scope::new(scope).unwrap(), "id"), attempt: 1, retention: HOUR };
        let gone = store.mark(&[in_scope("a")]).await.expect_err("a statement is gone");
        assert!(gone.kind().is_transient(), "{gone}");
        assert_eq!(all(store.mark(&[in_scope("a")]).await), [Marked::Fresh]);
        // Once it has happened, nothing is kept prepared.
        assert_eq!(all(store.mark(&[in_scope("b")]).await), [Marked::Fresh]);
        // Nor if that is asked for.
        assert_eq!(all(pooled.mark(&[in_scope("c")]).await), [Marked::Fresh]);
    });
}
