//! A server that is put back.

use super::*;
use testkit::processes::PATIENCE;
use testkit::stores::clock_at;
use testkit::stores::restored::{Backup, Place};

#[test]
fn a_server_that_was_put_back() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let open = async || {
        let options = PostgresOptions::parse(&server.address()).unwrap().timeout(PATIENCE).unwrap();
        let store = PostgresStore::new(options, "restored").unwrap();
        store.migrate().await.unwrap();
        store
    };
    let handle = async |backup| {
        server.kill();
        match backup {
            Backup::Take => server.back_up(),
            Backup::PutBack => server.restore(),
        }
        server.launch();
    };
    runtime().block_on(Place { open, handle, clock: clock_at(0) }.is_put_back());
}
