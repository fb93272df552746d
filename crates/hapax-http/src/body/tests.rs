//! Bodies that come in pieces, end in trailers, are too long, or fail.

use super::*;
use std::collections::VecDeque;

/// A body of given pieces.
struct Pieces(VecDeque<Result<Frame<Bytes>, &'static str>>);

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        Poll::Ready(self.0.pop_front())
    }
}

fn pieces(data: &[&'static str], end: Option<Result<Frame<Bytes>, &'static str>>) -> Pieces {
    let data = data.iter().map(|piece| Ok(Frame::data(Bytes::from_static(piece.as_bytes()))));
    Pieces(data.chain(end).collect())
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

fn takes(_: usize) -> Result<(), ()> {
    Ok(())
}

/// Reads everything until the body ends or fails.
fn drain(mut body: Body<Pieces>) -> (String, Option<HeaderMap>, Option<&'static str>) {
    block_on(async {
        let (mut text, mut trailers) = (String::new(), None);
        while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
            match frame.map(Frame::into_data) {
                Ok(Ok(data)) => text.push_str(std::str::from_utf8(&data).unwrap()),
                Ok(Err(other)) => trailers = other.into_trailers().ok(),
                Err(error) => return (text, trailers, Some(error)),
            }
        }
        assert!(body.is_end_stream() || matches!(body.end, End::Rest(_)));
        (text, trailers, None)
    })
}

fn trailers() -> HeaderMap {
    HeaderMap::from_iter([(http::HeaderName::from_static("checksum"), http::HeaderValue::from_static("7"))])
}

#[test]
fn pieces_and_trailers_come_back_whole() {
    for data in [&[][..], &["abc"], &["a", "", "bc"], &["", "ab", "c"]] {
        let body = pieces(data, Some(Ok(Frame::trailers(trailers()))));
        let Reading::Whole(read) = block_on(super::read(body, 3, takes)) else {
            panic!("3 bytes fit into 3: {data:?}")
        };
        assert_eq!(read.data, data.concat());
        let body = Body::from(read);
        assert_eq!((body.size_hint().lower(), body.size_hint().upper()), (data.concat().len() as u64, None));
        assert_eq!(drain(body), (data.concat(), Some(trailers()), None));
    }
}

#[test]
fn a_whole_body_has_a_length() {
    let Reading::Whole(read) = block_on(super::read(pieces(&["a", "bc"], None), 3, takes)) else {
        panic!("3 bytes fit into 3")
    };
    let body = Body::<Pieces>::from(read);
    assert_eq!(body.size_hint().exact(), Some(3));
    assert_eq!(drain(body), ("abc".to_owned(), None, None));
}

#[test]
fn what_is_too_large_is_given_on_without_a_byte_lost() {
    for max_bytes in 0..9 {
        let body = pieces(&["abc", "def", "ghi"], Some(Ok(Frame::trailers(trailers()))));
        let Reading::TooLarge(body) = block_on(super::read(body, max_bytes, takes)) else {
            panic!("9 bytes into {max_bytes}")
        };
        assert!(body.size_hint().lower() <= 9 && body.size_hint().upper().is_none());
        assert_eq!(drain(body), ("abcdefghi".to_owned(), Some(trailers()), None));
    }
}

#[test]
fn a_body_that_fails_fails_where_it_did() {
    let Reading::Failed(body) = block_on(super::read(pieces(&["abc", "d"], Some(Err("broken"))), 100, takes)) else {
        panic!("it fails")
    };
    assert!(!body.is_end_stream());
    assert_eq!(drain(body), ("abcd".to_owned(), None, Some("broken")));
}

#[test]
fn an_untouched_body_is_the_one_beneath() {
    let body = Body::untouched(pieces(&["a", "b"], Some(Err("broken"))));
    assert_eq!(drain(body), ("ab".to_owned(), None, Some("broken")));
}

#[test]
fn pieces_and_trailers_are_read_while_there_is_room() {
    for room in 0..=10 {
        let body = pieces(&["abc", "def"], Some(Ok(Frame::trailers(trailers()))));
        let mut left: usize = room;
        let take = |bytes: usize| {
            left = left.checked_sub(bytes.min(4)).ok_or("full")?;
            Ok(())
        };
        match (room, block_on(super::read(body, 100, take))) {
            (..10, Reading::Full("full")) => {}
            (10.., Reading::Whole(_)) => {}
            _ => panic!("6 bytes and trailers, counted as 4, into {room}"),
        }
    }
    let body = pieces(&["abc", "def"], Some(Ok(Frame::trailers(trailers()))));
    let Reading::Whole(read) = block_on(super::read(body, 6, takes)) else { panic!("6 bytes fit into 6") };
    assert_eq!(read.bytes(), 6 + "checksum".len() + "7".len() + 32);
}
