//! Bodies: read up to a limit, and passed on.

use crate::limits::permits::Permit;
use crate::response::headers;
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A body behind the layer: that of a request as the handler gets it, and of a response as the
/// client does.
///
/// ```
/// use http_body::Body as _;
///
/// fn len<B: http_body::Body<Data = bytes::Bytes>>(request: &http::Request<hapax_http::Body<B>>) -> Option<u64> {
///     request.body().size_hint().exact() // known where the method is covered: it has been read
/// }
/// # let _ = len::<String>;
/// ```
///
/// A body that the layer has read is in memory and comes in one piece. Any other is the one
/// beneath, untouched.
pub struct Body<B: HttpBody> {
    /// The pieces that were read of it.
    read: [Bytes; 2],
    end: End<B>,
}

/// The rest of a body, after the pieces that were read.
enum End<B: HttpBody> {
    /// The body was read to its end.
    Trailers(Option<HeaderMap>),
    /// The body became too large, or was not read at all.
    Rest(Pin<Box<B>>),
    Error(Option<B::Error>),
}

/// A body that has been read to its end.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) data: Bytes,
    pub(super) trailers: Option<HeaderMap>,
}

impl Read {
    /// Returns its length in bytes, trailers included.
    pub(super) fn bytes(&self) -> usize {
        self.data.len() + self.trailers.as_ref().map_or(0, headers::bytes)
    }
}

/// The result of reading a body.
pub(super) enum Reading<B: HttpBody, E> {
    Whole(Read),
    TooLarge(Body<B>),
    Failed(Body<B>),
    /// There is no room for more of it.
    Full(E),
}

/// Reads a body of up to this many bytes (and its trailers), each piece if there is room for it. If
/// the announced length is larger, nothing is read.
pub(super) async fn read<B: HttpBody<Data = Bytes>, E>(
    body: B,
    max_bytes: usize,
    mut take: impl FnMut(usize) -> Result<(), E>,
) -> Reading<B, E> {
    let mut body = Box::pin(body);
    let (mut data, mut trailers) = (Gathered::default(), None);
    if body.size_hint().lower() > max_bytes as u64 {
        return Reading::TooLarge(Body { read: Default::default(), end: End::Rest(body) });
    }
    while let Some(frame) = poll_fn(|context| body.as_mut().poll_frame(context)).await {
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) => {
                return Reading::Failed(Body { read: [data.whole(), Bytes::new()], end: End::Error(Some(error)) });
            }
        };
        match frame.into_data() {
            Ok(more) if data.len() + more.len() > max_bytes => {
                return Reading::TooLarge(Body { read: [data.whole(), more], end: End::Rest(body) });
            }
            Ok(more) => match take(more.len()) {
                Ok(()) => data.push(more),
                Err(full) => return Reading::Full(full),
            },
            // A frame that is neither data nor trailers is skipped: its meaning is unknown.
            Err(other) => {
                if let Ok(more) = other.into_trailers() {
                    if let Err(full) = take(headers::bytes(&more)) {
                        return Reading::Full(full);
                    }
                    trailers = Some(more);
                }
            }
        }
    }
    Reading::Whole(Read { data: data.whole(), trailers })
}

/// The pieces read so far. One piece stays where it is; several are copied together, so that small
/// pieces do not hold on to large buffers.
#[derive(Default)]
struct Gathered {
    first: Bytes,
    all: BytesMut,
}

impl Gathered {
    fn len(&self) -> usize {
        self.first.len() + self.all.len()
    }

    fn push(&mut self, more: Bytes) {
        if self.len() == 0 {
            self.first = more;
            return;
        }
        if !self.first.is_empty() {
            self.all.extend_from_slice(&std::mem::take(&mut self.first));
        }
        self.all.extend_from_slice(&more);
    }

    fn whole(&mut self) -> Bytes {
        if self.all.is_empty() { std::mem::take(&mut self.first) } else { self.all.split().freeze() }
    }
}

impl<B: HttpBody> Body<B> {
    /// Returns the same body, which keeps a permit for the bytes that were read of it as long as
    /// there are any.
    pub(super) fn holding(self, permit: Permit) -> Self {
        let [first, second] = self.read;
        Body { read: [permit.with(first), second], end: self.end }
    }

    pub(super) fn untouched(body: B) -> Self {
        Body { read: Default::default(), end: End::Rest(Box::pin(body)) }
    }
}

impl<B: HttpBody> From<Read> for Body<B> {
    fn from(read: Read) -> Self {
        Body { read: [read.data, Bytes::new()], end: End::Trailers(read.trailers) }
    }
}

impl<B: HttpBody> From<Bytes> for Body<B> {
    fn from(data: Bytes) -> Self {
        Read { data, trailers: None }.into()
    }
}

// Every pinned part of it is in a box of its own.
impl<B: HttpBody> Unpin for Body<B> {}

impl<B: HttpBody<Data = Bytes>> HttpBody for Body<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let Body { read, end } = &mut *self;
        if let Some(data) = read.iter_mut().map(std::mem::take).find(|data| !data.is_empty()) {
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        match end {
            End::Trailers(trailers) => Poll::Ready(trailers.take().map(|trailers| Ok(Frame::trailers(trailers)))),
            End::Rest(rest) => rest.as_mut().poll_frame(context),
            End::Error(error) => Poll::Ready(error.take().map(Err)),
        }
    }

    fn is_end_stream(&self) -> bool {
        let is_end = match &self.end {
            End::Trailers(trailers) => trailers.is_none(),
            End::Rest(rest) => rest.is_end_stream(),
            End::Error(error) => error.is_none(),
        };
        is_end && self.read.iter().all(Bytes::is_empty)
    }

    fn size_hint(&self) -> SizeHint {
        let read: u64 = self.read.iter().map(|data| data.len() as u64).sum();
        let mut hint = match &self.end {
            End::Trailers(None) => SizeHint::with_exact(0),
            // A body of known length has no room for trailers in HTTP/1.1.
            End::Trailers(Some(_)) | End::Error(_) => SizeHint::new(),
            End::Rest(rest) => rest.size_hint(),
        };
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper.saturating_add(read));
        }
        hint.set_lower(hint.lower().saturating_add(read).min(hint.upper().unwrap_or(u64::MAX)));
        hint
    }
}

impl<B: HttpBody> fmt::Debug for Body<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match &self.end {
            End::Trailers(_) => format!("{} bytes", self.read[0].len()),
            End::Rest(_) => "a stream".to_owned(),
            End::Error(_) => "a stream that failed".to_owned(),
        };
        f.debug_tuple("Body").field(&what).finish()
    }
}

#[cfg(test)]
mod tests;
