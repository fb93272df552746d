//! The copy of a message that is put aside.

use crate::Message;
use async_nats::HeaderMap;
use async_nats::header::NATS_MESSAGE_ID;

/// The prefix of the headers that a copy has and its original has not.
const PREFIX: &str = "Dead-Letter-";

/// Returns the headers of a copy: those of the message, the reason, and where it comes from.
///
/// Headers that begin with `Nats-` are commands to the server: one that expects the last position
/// of the old stream, or a rollup, would be obeyed by the stream of dead letters. They keep their
/// value under `Dead-Letter-Original-…`, without `Nats-`: old servers (2.9) take a name that ends
/// like a command for one. The copy's own `Nats-Msg-Id` names the message's place, so that the
/// server drops a second copy of it, and no copy of another message that has the same id.
pub(crate) fn headers(message: &Message, why: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, values) in message.headers.iter().flat_map(HeaderMap::iter) {
        let text: &str = name.as_ref();
        let name = match text.split_at_checked(5) {
            Some((start, rest)) if start.eq_ignore_ascii_case("nats-") => {
                let Ok(renamed) = format!("{PREFIX}Original-{rest}").parse() else { continue };
                renamed
            }
            _ => name.clone(),
        };
        values.iter().for_each(|value| headers.append(name.clone(), value.clone()));
    }
    let mut set = |name: &str, value: String| headers.insert(format!("{PREFIX}{name}"), value);
    set("Reason", reason(why));
    set("Subject", message.subject.to_string());
    if let Ok(info) = message.info() {
        set("Stream", info.stream.to_owned());
        set("Consumer", info.consumer.to_owned());
        set("Sequence", info.stream_sequence.to_string());
        set("Deliveries", info.delivered.to_string());
        let place = format!("{}/{}/{}/{}", info.stream, info.consumer, info.stream_sequence, info.published);
        headers.insert(NATS_MESSAGE_ID, place);
    }
    headers
}

/// Returns a reason as a header may have it: one line.
fn reason(why: &str) -> String {
    why.replace(|c: char| c.is_control(), " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_line() {
        assert_eq!(reason("a\r\nb\tc\0d"), "a  b c d");
    }
}
