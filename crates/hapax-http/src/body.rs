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
pub struct Body<B: HttpBody>(Repr<B>);

enum Repr<B: HttpBody> {
    Read(Read),
    /// The part that was read before the body became too large, and the rest.
    Rest {
        first: [Option<Bytes>; 2],
        rest: Pin<Box<B>>,
    },
    /// The part that was read before the body failed.
    Failed {
        first: Option<Bytes>,
        error: Option<B::Error>,
    },
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
        return Reading::TooLarge(Body(Repr::Rest { first: [None, None], rest: body }));
    }
    while let Some(frame) = poll_fn(|context| body.as_mut().poll_frame(context)).await {
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) => {
                return Reading::Failed(Body(Repr::Failed { first: Some(data.whole()), error: Some(error) }));
            }
        };
        match frame.into_data() {
            Ok(more) if data.len() + more.len() > max_bytes => {
                return Reading::TooLarge(Body(Repr::Rest { first: [Some(data.whole()), Some(more)], rest: body }));
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
        match self.0 {
            Repr::Read(read) => Read { data: permit.with(read.data), ..read }.into(),
            Repr::Rest { first: [first, second], rest } => {
                Body(Repr::Rest { first: [first.map(|first| permit.with(first)), second], rest })
            }
            Repr::Failed { first, error } => Body(Repr::Failed { first: first.map(|first| permit.with(first)), error }),
        }
    }

    pub(super) fn untouched(body: B) -> Self {
        Body(Repr::Rest { first: [None, None], rest: Box::pin(body) })
    }
}

impl<B: HttpBody> From<Read> for Body<B> {
    fn from(read: Read) -> Self {
        Body(Repr::Read(read))
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
        let data = |data| Poll::Ready(Some(Ok(Frame::data(data))));
        match &mut self.0 {
            Repr::Read(read) => match (std::mem::take(&mut read.data), read.trailers.take()) {
                (some, trailers) if !some.is_empty() => {
                    read.trailers = trailers;
                    data(some)
                }
                (_, Some(trailers)) => Poll::Ready(Some(Ok(Frame::trailers(trailers)))),
                (_, None) => Poll::Ready(None),
            },
            Repr::Rest { first, rest } => {
                match first.iter_mut().find_map(|first| first.take().filter(|it| !it.is_empty())) {
                    Some(first) => data(first),
                    None => rest.as_mut().poll_frame(context),
                }
            }
            Repr::Failed { first, error } => match first.take().filter(|first| !first.is_empty()) {
                Some(first) => data(first),
                None => Poll::Ready(error.take().map(Err)),
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Repr::Read(read) => read.data.is_empty() && read.trailers.is_none(),
            Repr::Rest { first: [None, None], rest } => rest.is_end_stream(),
            Repr::Rest { .. } => false,
            Repr::Failed { error, .. } => error.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            // A body of known length has no room for trailers in HTTP/1.1.
            Repr::Read(read) if read.trailers.is_some() => {
                let mut hint = SizeHint::new();
                hint.set_lower(read.data.len() as u64);
                hint
            }
            Repr::Read(read) => SizeHint::with_exact(read.data.len() as u64),
            Repr::Rest { first, rest } => {
                let read: u64 = first.iter().flatten().map(|first| first.len() as u64).sum();
                let mut hint = rest.size_hint();
                if let Some(upper) = hint.upper() {
                    hint.set_upper(upper.saturating_add(read));
                }
                hint.set_lower(hint.lower().saturating_add(read).min(hint.upper().unwrap_or(u64::MAX)));
                hint
            }
            Repr::Failed { .. } => SizeHint::default(),
        }
    }
}

impl<B: HttpBody> fmt::Debug for Body<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match &self.0 {
            Repr::Read(read) => format!("{} bytes", read.data.len()),
            Repr::Rest { .. } => "a stream".to_owned(),
            Repr::Failed { .. } => "a stream that failed".to_owned(),
        };
        f.debug_tuple("Body").field(&what).finish()
    }
}

#[cfg(test)]
mod tests;
