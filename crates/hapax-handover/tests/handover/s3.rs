//! Over S3: moto's server, which has conditional puts (If-Match and If-None-Match).

use crate::s3_server::Server;
use crate::{Temporary, hands_over};
use hapax_handover::object_store::aws::AmazonS3Builder;
use hapax_handover::object_store::path::Path;
use hapax_handover::object_store::{Error, ObjectStore, PutMode, PutOptions, UpdateVersion};
use std::sync::Arc;

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_is_handed_over_through_s3() {
    let Some(server) = Server::start() else { return };
    let _ = rustls::crypto::ring::default_provider().install_default();
    let store = AmazonS3Builder::new()
        .with_endpoint(server.url())
        .with_allow_http(true)
        .with_bucket_name("hapax")
        .with_region("us-east-1")
        .with_access_key_id("test")
        .with_secret_access_key("test")
        .build()
        .unwrap();
    // What all of it rests on.
    let at = Path::from("conditional");
    let put = |mode: PutMode| store.put_opts(&at, "x".into(), PutOptions::from(mode));
    let first = put(PutMode::Create).await.unwrap();
    assert!(matches!(put(PutMode::Create).await, Err(Error::AlreadyExists { .. })));
    let version = |e_tag: Option<String>| PutMode::Update(UpdateVersion { e_tag, version: None });
    put(version(first.e_tag)).await.unwrap();
    assert!(matches!(put(version(Some("\"other\"".into()))).await, Err(Error::Precondition { .. })));
    let directory = Temporary::new();
    let store: Arc<dyn ObjectStore> = Arc::new(store);
    hands_over(Arc::clone(&store), &directory.0).await;
    crate::long::hands_over(store, &directory.0.join("long"), crate::options()).await;
}
