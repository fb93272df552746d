//! Calls of another API behind an outbox: each message is a request that has its key.

use crate::{IDEMPOTENCY_KEY, KeyBuilder};
use bytes::{Buf, Bytes};
use hapax_message::cloudevents::Binding;
use hapax_message::{BoxError, GiveUp, Message, Publisher};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body::Body;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::pin;
use tower_service::Service;

/// The part of a response's body that is read, so that its connection can be used again.
const READ_MAX: usize = 64 << 10;
/// The part of it that an error shows.
const SHOWN_MAX: usize = 512;
/// The longest key that known APIs take.
const KEY_MAX: usize = 128;

type UriOf = dyn Fn(&Message) -> String + Send + Sync;

/// A [`Publisher`] for a relay: it posts each message to an API, with the message's id as the
/// header `Idempotency-Key`, and has published it when the API has answered with success.
///
/// ```
/// use bytes::Bytes;
/// use hapax_http::HttpPublisher;
/// use http_body_util::Full;
/// use hyper_util::client::legacy::Client;
/// use hyper_util::rt::TokioExecutor;
///
/// let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
/// let uri = "http://127.0.0.1:8080/charges";
/// let publisher = HttpPublisher::<_, Full<Bytes>>::new(client, move |_| uri.to_owned());
/// # let _ = publisher;
/// ```
///
/// The client is any tower service: layers give it credentials, tracing, a time-out. A relay stops
/// a call after its `publish_timeout`.
///
/// - The key is the message's id if that is up to 128 letters, digits and `-._~:/+=`, and otherwise
///   a hash of it ([`KeyBuilder`]): the same at each attempt, so that the API does once what is
///   asked for twice, even if its answer was lost.
/// - The message's headers go with it, and those of its event
///   ([`published_headers`](Message::published_headers)).
/// - By status: 2xx is done. 401, 403, 407, 408, 409 (the first attempt is still running), 425, 429
///   and 5xx are tried again, as is a call without an answer. All others are dead letters at once
///   ([`GiveUp`]), with the beginning of the body: another attempt would get the same answer.
pub struct HttpPublisher<C, B> {
    client: C,
    uri_of: Box<UriOf>,
    body: PhantomData<fn(B)>,
}

impl<C, B> HttpPublisher<C, B> {
    /// Creates a publisher that posts each message to the URI of it.
    pub fn new(client: C, uri_of: impl Fn(&Message) -> String + Send + Sync + 'static) -> Self {
        HttpPublisher { client, uri_of: Box::new(uri_of), body: PhantomData }
    }

    fn request(&self, message: &Message) -> Result<Request<B>, GiveUp>
    where
        B: From<Bytes>,
    {
        let mut request = Request::post((self.uri_of)(message));
        for (name, value) in message.published_headers(Binding::Http) {
            let name: HeaderName = name.parse().map_err(|_| GiveUp::because(format!("no header of HTTP: {name:?}")))?;
            let wrong = |_| GiveUp::because(format!("header {name}: no value of HTTP: {value:?}"));
            let value = HeaderValue::from_str(&value).map_err(wrong)?;
            if name != IDEMPOTENCY_KEY {
                request = request.header(name, value);
            }
        }
        let request = request.header(IDEMPOTENCY_KEY, key(message));
        request.body(Bytes::from(message.payload.clone()).into()).map_err(GiveUp::because)
    }
}

/// Returns the key of a message.
fn key(message: &Message) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~:/+=".contains(byte);
    let plain = Some(&*message.id).filter(|id| (1..=KEY_MAX).contains(&id.len()) && id.iter().all(is_plain));
    let plain = plain.and_then(|id| std::str::from_utf8(id).ok()).map(str::to_owned);
    plain.unwrap_or_else(|| KeyBuilder::new("outbox").bytes(&message.id).build().to_string())
}

impl<C, B, R> Publisher for HttpPublisher<C, B>
where
    C: Service<Request<B>, Response = Response<R>> + Clone + Send + Sync + 'static,
    C::Error: Into<BoxError>,
    C::Future: Send,
    B: From<Bytes> + Send + 'static,
    R: Body + Send,
    R::Data: Send,
{
    async fn publish(&self, message: &Message) -> Result<(), BoxError> {
        let request = self.request(message)?;
        let mut client = self.client.clone();
        poll_fn(|context| client.poll_ready(context)).await.map_err(Into::into)?;
        let response = client.call(request).await.map_err(Into::into)?;
        let status = response.status();
        let body = beginning(response.into_body()).await;
        if status.is_success() {
            return Ok(());
        }
        let error = format!("the answer was {status}: {body}");
        if comes_again(status) { Err(error.into()) } else { Err(GiveUp::because(error).into()) }
    }
}

/// Returns true if another attempt may get another answer.
fn comes_again(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status.as_u16(), 401 | 403 | 407 | 408 | 409 | 425 | 429)
}

/// Reads a body to its end, if that is near, and returns its beginning as text.
async fn beginning(body: impl Body) -> String {
    let mut body = pin!(body);
    let (mut read, mut shown) = (0, Vec::new());
    while read < READ_MAX
        && let Some(Ok(frame)) = poll_fn(|context| body.as_mut().poll_frame(context)).await
    {
        let Ok(mut data) = frame.into_data() else { continue };
        read += data.remaining();
        while data.has_remaining() && shown.len() < SHOWN_MAX {
            let chunk = data.chunk();
            let some = chunk.len().min(SHOWN_MAX - shown.len());
            shown.extend_from_slice(&chunk[..some]);
            data.advance(some);
        }
    }
    String::from_utf8_lossy(&shown).replace(|char: char| char.is_control(), " ")
}

impl<C, B> std::fmt::Debug for HttpPublisher<C, B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpPublisher").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_plain_ids_or_hashes() {
        let of = |id: &[u8]| key(&Message::new("orders", id, ""));
        assert_eq!(of(b"order-17/paid"), "order-17/paid");
        for id in [&b""[..], b"a b", b"a\"", "ü".as_bytes(), &[0xff], &[b'x'; 129], b"a,b"] {
            let hash = of(id);
            assert!(hash.starts_with("h1") && hash.len() == 42, "{hash}");
            let parsed = crate::key::parse(std::iter::once(hash.as_bytes())).unwrap();
            assert_eq!(parsed, hash);
        }
        assert!(crate::key::parse(std::iter::once(&b"order-17/paid"[..])).is_ok());
    }
}
