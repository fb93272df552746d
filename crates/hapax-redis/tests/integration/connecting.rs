//! The first connection to a server: what passes is tried again, what is wrong is told at once.

use crate::store::installed;
use hapax_redis::{RedisOptions, RedisStore};
use hapax_store::*;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use testkit::redis_server::Server;
use testkit::stores::runtime;
use tokio::net::{TcpListener, TcpStream};

/// Forwards connections to a server, and resets the first ones. Returns its address and the count
/// of connections.
async fn resetting(first: usize, server: SocketAddr) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let (address, count) = (listener.local_addr().expect("its address"), Arc::<AtomicUsize>::default());
    let counted = Arc::clone(&count);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            if counted.fetch_add(1, Ordering::SeqCst) < first {
                client.set_zero_linger().expect("a reset");
                continue;
            }
            tokio::spawn(async move {
                let mut server = TcpStream::connect(server).await.expect("a server");
                tokio::io::copy_bidirectional(&mut client, &mut server).await
            });
        }
    });
    (address, count)
}

#[test]
fn connections_that_are_reset_are_made_again() {
    let Some(server) = installed(|| Server::start_on_loopback(&[])) else { return };
    runtime().block_on(async {
        let (address, count) = resetting(3, server.address()).await;
        let store = RedisStore::connect(RedisOptions::single(format!("redis://{address}"), "orders")).await;
        assert!(store.is_ok(), "{store:?}");
        assert_eq!(count.load(Ordering::SeqCst), 4);
    });
}

#[test]
fn what_is_wrong_is_told_at_once() {
    let Some(server) = installed(|| Server::start_on_loopback(&["--requirepass", "s3cret"])) else { return };
    runtime().block_on(async {
        let (address, count) = resetting(0, server.address()).await;
        let error =
            RedisStore::connect(RedisOptions::single(format!("redis://{address}"), "orders")).await.unwrap_err();
        assert_eq!((error.kind(), count.load(Ordering::SeqCst)), (ErrorKind::Misconfigured, 1));
    });
}
