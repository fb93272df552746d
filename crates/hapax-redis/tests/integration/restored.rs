//! A server that is put back.

use crate::store::connect;
use hapax_redis::RedisOptions;
use testkit::redis_server::{Server, is_missing};
use testkit::stores::restored::{Backup, Place};
use testkit::stores::{clock_at, runtime};

#[test]
fn a_server_that_was_put_back_with_a_log_and_without() {
    if is_missing() {
        return;
    }
    for appends in ["yes", "no"] {
        let server = Server::start(&["--appendonly", appends]);
        let open = async || connect(RedisOptions::single(server.url(), "h")).await;
        let handle = async |backup| match backup {
            Backup::Take => server.back_up(),
            Backup::PutBack => server.restore(),
        };
        runtime().block_on(Place { open, handle, clock: clock_at(0) }.is_put_back());
    }
}
