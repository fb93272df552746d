//! Prints what was handled, as a table for people and as JSON.

use crate::printable::{json_line, line};
use crate::store::show::hex;
use hapax_postgres::inbox::Handled;
use serde_json::{Value, json};
use std::time::SystemTime;

const HEAD: [&str; 9] = ["number", "handled at", "consumer", "processor", "kind", "subject", "id", "attempts", "state"];

/// Returns a table, and after it how to see what follows.
pub fn table(page: &[Handled], next: Option<i64>) -> String {
    if page.is_empty() {
        return "nothing was handled that is still known\n".into();
    }
    let mut rows = vec![HEAD.map(str::to_owned)];
    rows.extend(page.iter().map(row));
    let widths: [usize; HEAD.len()] =
        std::array::from_fn(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or_default());
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    if let Some(number) = next {
        text.push_str(&format!("there are more: --behind {number}\n"));
    }
    text
}

fn row(event: &Handled) -> [String; HEAD.len()] {
    let or_dash = |text: &Option<String>| text.as_deref().map_or_else(|| "-".to_owned(), line);
    let state = match (event.requeued_at, event.is_kept) {
        (Some(_), _) => "requeued",
        (None, true) => "kept",
        (None, false) => "-",
    };
    [
        event.number.to_string(),
        at(event.handled_at),
        line(&event.consumer),
        or_dash(&event.processor),
        or_dash(&event.kind),
        or_dash(&event.subject),
        std::str::from_utf8(&event.id).map_or_else(|_| format!("0x{}", hex(&event.id)), line),
        event.attempts.to_string(),
        state.to_owned(),
    ]
}

/// Formats a time as RFC 3339 does, in UTC.
fn at(time: SystemTime) -> String {
    jiff::Timestamp::try_from(time).map_or_else(|_| format!("{time:?}"), |at| at.to_string())
}

/// Returns one object: the events, and the number behind which there are more, or null. An id or a
/// result that is no text is in hexadecimal digits, under another name.
pub fn json(page: &[Handled], next: Option<i64>) -> String {
    let events: Vec<Value> = page.iter().map(event).collect();
    json_line(&json!({ "events": events, "next": next }))
}

fn event(event: &Handled) -> Value {
    let mut object = json!({
        "number": event.number,
        "consumer": event.consumer,
        "processor": event.processor,
        "kind": event.kind,
        "source": event.source,
        "subject": event.subject,
        "attempts": event.attempts,
        "error": event.error,
        "received_at": event.received_at.map(at),
        "handled_at": at(event.handled_at),
        "requeued_at": event.requeued_at.map(at),
        "kept": event.is_kept,
    });
    for (name, bytes) in [("id", Some(&event.id)), ("result", event.result.as_ref())] {
        let Some(bytes) = bytes else { continue };
        match std::str::from_utf8(bytes) {
            Ok(text) => object[name] = text.into(),
            Err(_) => object[format!("{name}_hex")] = hex(bytes).into(),
        }
    }
    object
}
