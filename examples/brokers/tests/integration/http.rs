//! Senders of requests that retry until they succeed.

use std::time::{Duration, Instant};

/// Returns a client.
pub fn client() -> reqwest::Client {
    // The provider of TLS. (It fails if there is one.)
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::new()
}

/// Posts until the answer is 200, and returns its body; after a refusal or a broken connection it
/// waits for a moment.
pub async fn post_until_done(client: &reqwest::Client, url: &str, headers: &[(&str, String)], body: &str) -> Vec<u8> {
    let began = Instant::now();
    loop {
        match post(client, url, headers, body).await {
            Ok((200, answer)) => return answer,
            // These statuses are final.
            Ok((status @ 400..500, answer)) => panic!("{status}: {}", String::from_utf8_lossy(&answer)),
            not_yet => assert!(began.elapsed() < testkit::processes::PATIENCE, "no 200: {not_yet:?}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Posts once. Returns the status, and the answer.
pub async fn post(
    client: &reqwest::Client,
    url: &str,
    headers: &[(&str, String)],
    body: &str,
) -> Result<(u16, Vec<u8>), reqwest::Error> {
    let post = client.post(url).body(body.to_owned());
    let answer = headers.iter().fold(post, |post, (name, value)| post.header(*name, value)).send().await?;
    Ok((answer.status().as_u16(), answer.bytes().await?.to_vec()))
}
