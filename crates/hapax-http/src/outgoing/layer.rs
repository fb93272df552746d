//! A layer that puts keys on outgoing requests.

use super::{IDEMPOTENCY_KEY, OutgoingKey};
use http::{HeaderName, Request};
use std::task::{Context, Poll};
use tower_layer::Layer;
use tower_service::Service;

/// The header that marks a replayed response.
pub const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// A layer that puts the [`OutgoingKey`] that a request carries as an extension into its header,
/// for a client made of tower services.
///
/// ```
/// use hapax_http::{KeyBuilder, OutgoingKeyLayer};
/// use tower_layer::Layer as _;
///
/// # fn example<Client>(client: Client) -> Result<(), http::Error> {
/// let client = OutgoingKeyLayer::new().layer(client);
/// let request = http::Request::post("https://api.example/charges")
///     .extension(KeyBuilder::new("payments").text("order-17").text("charge").build())
///     .body("…")?;
/// // client.call(request)
/// # Ok(())
/// # }
/// ```
///
/// It works outside a layer that retries, or inside: every attempt has the same key. The extension
/// replaces an existing header. That may be from a client of ours, copied from the request that is
/// being handled, and a client that chooses a key that we have used would get the response that was
/// ours. A request without the extension is sent unchanged.
#[derive(Clone, Debug)]
pub struct OutgoingKeyLayer {
    header: HeaderName,
    is_quoted: bool,
}

impl OutgoingKeyLayer {
    /// Creates a layer for the header `Idempotency-Key`, bare.
    pub fn new() -> Self {
        OutgoingKeyLayer { header: IDEMPOTENCY_KEY, is_quoted: false }
    }

    /// Sets the header, for an API with another name for it.
    #[must_use]
    pub fn header(self, header: HeaderName) -> Self {
        OutgoingKeyLayer { header, ..self }
    }

    /// Writes the key as a string in quotation marks, as the IETF draft has it.
    #[must_use]
    pub fn quoted(self) -> Self {
        OutgoingKeyLayer { is_quoted: true, ..self }
    }
}

impl Default for OutgoingKeyLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<Inner> Layer<Inner> for OutgoingKeyLayer {
    type Service = OutgoingKeyService<Inner>;

    fn layer(&self, inner: Inner) -> OutgoingKeyService<Inner> {
        OutgoingKeyService { inner, layer: self.clone() }
    }
}

/// A client with an [`OutgoingKeyLayer`] on it.
#[derive(Clone, Debug)]
pub struct OutgoingKeyService<Inner> {
    inner: Inner,
    layer: OutgoingKeyLayer,
}

impl<Inner: Service<Request<B>>, B> Service<Request<B>> for OutgoingKeyService<Inner> {
    type Response = Inner::Response;
    type Error = Inner::Error;
    type Future = Inner::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Inner::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Inner::Future {
        if let Some(key) = request.extensions().get::<OutgoingKey>().copied() {
            let value = if self.layer.is_quoted { key.quoted_header_value() } else { key.header_value() };
            request.headers_mut().insert(&self.layer.header, value);
        }
        self.inner.call(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outgoing::KeyBuilder;
    use std::future::{Ready, ready};

    /// A service that answers with the header that it was sent.
    #[derive(Clone)]
    struct Echo(&'static str);

    impl Service<Request<()>> for Echo {
        type Response = Option<String>;
        type Error = ();
        type Future = Ready<Result<Option<String>, ()>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ()>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: Request<()>) -> Self::Future {
            assert!(request.headers().get_all(self.0).iter().count() <= 1);
            let header = request.headers().get(self.0).and_then(|value| value.to_str().ok());
            ready(Ok(header.map(str::to_owned)))
        }
    }

    fn sent(layer: OutgoingKeyLayer, echoed: &'static str, request: Request<()>) -> Option<String> {
        layer.layer(Echo(echoed)).call(request).into_inner().unwrap()
    }

    #[test]
    fn a_key_is_sent_as_it_was_asked_for() {
        let key = KeyBuilder::new("saga").text("17").int(2).build();
        let request = || Request::builder().extension(key).body(()).unwrap();
        let new = OutgoingKeyLayer::new;
        assert_eq!(sent(new(), "idempotency-key", request()), Some(key.to_string()));
        assert_eq!(sent(new().quoted(), "idempotency-key", request()), Some(format!("\"{key}\"")));
        let other = HeaderName::from_static("x-request-id");
        assert_eq!(sent(new().header(other), "x-request-id", request()), Some(key.to_string()));
        assert_eq!(sent(new(), "idempotency-key", Request::new(())), None);
        // For example passed on from a client: even several.
        let mut has_some = request();
        for value in ["a client's", "another"] {
            has_some.headers_mut().append(IDEMPOTENCY_KEY, http::HeaderValue::from_static(value));
        }
        assert_eq!(sent(new(), "idempotency-key", has_some), Some(key.to_string()));
        let mut has_one = Request::new(());
        has_one.headers_mut().insert(IDEMPOTENCY_KEY, http::HeaderValue::from_static("its own"));
        assert_eq!(sent(new(), "idempotency-key", has_one).as_deref(), Some("its own"));
    }
}
