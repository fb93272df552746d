//! A network that misbehaves.

use hapax_dynamodb::aws_sdk_dynamodb::config::retry::RetryConfig;
use hapax_dynamodb::aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use hapax_dynamodb::aws_sdk_dynamodb::{Client, Config};
use hapax_dynamodb::{DynamoDbOptions, DynamoDbStore};
use hapax_store::{ErrorKind, Marked, Store};
use std::net::SocketAddr;
use std::time::Duration;
use testkit::moto_server::MotoServer;
use testkit::processes::PATIENCE;
use testkit::proxy::{Mode, Proxy};
use testkit::stores::*;

/// Returns a client that would repeat requests by itself, if it were let.
pub fn client(address: SocketAddr) -> Client {
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-central-1"))
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .endpoint_url(format!("http://{address}"))
        .retry_config(RetryConfig::standard().with_max_attempts(10))
        .http_client(aws_smithy_http_client::Builder::new().build_http());
    Client::from_conf(config.build())
}

fn store(address: SocketAddr, timeout: Duration, try_timeout: Duration) -> DynamoDbStore {
    let options = DynamoDbOptions::new("hapax").timeout(timeout).try_timeout(try_timeout);
    DynamoDbStore::new(&client(address), options).unwrap()
}

#[test]
fn a_service_that_cannot_be_reached_is_an_error_in_time_and_comes_back() {
    let Some(server) = MotoServer::start_without_threads() else { return };
    let direct = SocketAddr::from(([127, 0, 0, 1], server.port()));
    let minute = Duration::from_secs(60);
    runtime().block_on(async {
        store(direct, minute, minute).create_table().await.unwrap();
        let proxy = Proxy::to(direct).await;
        let half = Duration::from_millis(500);
        // What is refused ends by the number of tries, what is silent by time; or by the number,
        // too, since moto closes a connection after its answer, which the proxy keeps.
        for (mode, time, kinds) in [
            (Mode::Refuse, minute, &[ErrorKind::Unavailable][..]),
            (Mode::Mute, half, &[ErrorKind::Timeout, ErrorKind::Unavailable]),
        ] {
            proxy.set(mode);
            let hasty = store(proxy.address(), time, time);
            let began = std::time::Instant::now();
            let error = hasty.mark(&[mark_of("a", DAY)]).await.unwrap().remove(0).unwrap_err();
            assert!(kinds.contains(&error.kind()), "{mode:?}: {error}");
            assert!(began.elapsed() < PATIENCE, "{mode:?}");
        }
        proxy.cut();
        proxy.set(Mode::Pass);
        let patient = store(proxy.address(), minute, minute);
        assert_eq!(mark(&patient, "b").await, Marked::Fresh);
    });
}
