//! Keys of outgoing calls: from one server to the next.

use crate::running::Inner;
use crate::world::*;
use bytes::Bytes;
use hapax_http::{KeyBuilder, OutgoingKey, OutgoingKeyLayer};
use http_body_util::Full;
use std::sync::Arc;
use tower_layer::Layer;
use tower_service::Service;

#[tokio::test]
async fn a_step_that_is_made_again_is_handled_once_by_the_other_side() {
    let world = World::new();
    let server = Arc::new(world.counting(world.layer().await).await);
    let client = Inner(move |request: http::Request<Full<Bytes>>| {
        let server = Arc::clone(&server);
        async move {
            let answer = server.send(request).await;
            http::Response::builder().status(answer.status).body(Full::from(answer.body)).unwrap()
        }
    });
    let step = |step: &str| KeyBuilder::new("orders").text("saga-17").text(step).build();
    let sent = |key: OutgoingKey| {
        http::Request::post("/charges").header("host", "test").extension(key).body(Full::from("10")).unwrap()
    };
    // Quoted or bare, the other side takes it for the same key.
    for layer in [OutgoingKeyLayer::new(), OutgoingKeyLayer::new().quoted()] {
        let mut client = layer.layer(client.clone());
        for key in [step("charge"), step("charge"), step("notify")] {
            assert_eq!(client.call(sent(key)).await.unwrap().status(), 201);
        }
    }
    assert_eq!(world.runs.count(), 2);
}
