//! Records as text, and as JSON: pure, except for the time at which they end.

use crate::printable::{json_line, line};
use hapax::Key;
use hapax_plan::rough;
use hapax_store::attempt_count::AttemptCount;
use hapax_store::{Before, Inspected, RecordKey, RecordState};
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::{Duration, SystemTime};

/// The length of the longest result that is printed as text, in characters.
const RESULT_CHARS: usize = 2_000;

/// A record that was looked up.
pub struct Shown<'k> {
    pub key: &'k RecordKey,
    pub record: Option<Inspected>,
    pub attempts: AttemptCount,
}

/// Returns the name of a state, which options have, too.
pub fn state(state: RecordState) -> &'static str {
    match state {
        RecordState::Claimed => "claimed",
        RecordState::Failed => "failed",
        RecordState::Marked => "marked",
        RecordState::Completed => "completed",
        RecordState::InDoubt => "in-doubt",
        _ => "unknown to this version",
    }
}

impl Shown<'_> {
    /// Returns true if the id waits aside: nobody has got it since.
    fn is_aside(&self) -> bool {
        self.record.is_none() && self.attempts.waits_aside()
    }

    pub fn text(&self) -> String {
        let mut text = format!("{}\n", name(self.key));
        let attempts = match self.attempts.began {
            0 => String::new(),
            began => format!("  attempts     {began}\n"),
        };
        let Some(record) = &self.record else {
            let means = if self.is_aside() {
                "aside: not done; it was put aside, and is handled when it is sent anew"
            } else {
                // Ids of a consumer are in the scope of its name, which is easily left out.
                "no record in this scope: whoever asks next gets it (`hapax store stats` shows all scopes)"
            };
            return format!("{text}  state        {means}\n{attempts}");
        };
        let means = match record.state {
            RecordState::Claimed => "somebody works on it; a lease",
            RecordState::Failed => "nobody gets it",
            RecordState::Marked => "a duplicate, by a mark,",
            RecordState::InDoubt => "a lease is over, and its work may be done; known",
            _ => "a duplicate, with its work done,",
        };
        // To write to a string never fails.
        let _ = writeln!(text, "  state        {}: {means} {}", state(record.state), ends(record.expires_in));
        if let Some(token) = record.token {
            let _ = writeln!(text, "  token        {token}");
        }
        if let Some(held_by) = &record.held_by {
            let _ = writeln!(text, "  held by      {}", line(held_by.as_str()));
        }
        if let Some(before) = &record.in_doubt {
            let _ = writeln!(text, "  in doubt     {}, token {}", doubted(before), before.store_token());
        }
        if let Some(fingerprint) = record.fingerprint {
            let _ = writeln!(text, "  fingerprint  {}", hex(&fingerprint.0));
        }
        if let Some(result) = &record.result {
            let _ = writeln!(text, "  result       {} bytes{}", result.len(), readable(result));
        }
        text + &attempts
    }

    pub fn json(&self) -> String {
        let mut object = named(self.key);
        if self.attempts != AttemptCount::default() {
            object["attempts"] = self.attempts.began.into();
            object["put_aside"] = self.is_aside().into();
        }
        let Some(record) = &self.record else {
            object["state"] = self.is_aside().then_some("aside").into();
            return json_line(&object);
        };
        object["state"] = state(record.state).into();
        timed(&mut object, record.expires_in);
        object["token"] = record.token.into();
        if let Some(held_by) = &record.held_by {
            object["held_by"] = held_by.as_str().into();
        }
        doubtful(&mut object, record.in_doubt.as_ref());
        object["fingerprint"] = record.fingerprint.map(|fingerprint| hex(&fingerprint.0)).into();
        object["result_bytes"] = record.result.as_ref().map(Vec::len).into();
        let text = record.result.as_ref().map(|result| std::str::from_utf8(result));
        match (&record.result, text) {
            (_, Some(Ok(text))) => object["result"] = text.into(),
            (Some(result), _) => object["result_hex"] = hex(result).into(),
            (None, _) => {}
        }
        json_line(&object)
    }
}

/// Returns the age of a claim in doubt, and its holder.
pub fn doubted(before: &Before) -> String {
    let age = rough(hapax::Timestamp::from(SystemTime::now()).since(before.begun_at()));
    let by = before.held_by().map_or(String::new(), |held_by| format!(" by {}", line(held_by.as_str())));
    format!("begun {age} ago{by}")
}

/// Adds the claim in doubt, if there is one, to what is printed for programs.
pub fn doubtful(object: &mut Value, in_doubt: Option<&Before>) {
    let Some(before) = in_doubt else { return };
    let begun_at = jiff::Timestamp::from_microsecond(before.store_token().cast_signed()).ok();
    let (begun_at, held_by) = (begun_at.map(|at| at.to_string()), before.held_by().map(|held_by| held_by.as_str()));
    object["in_doubt"] = json!({ "token": before.store_token(), "begun_at": begun_at, "held_by": held_by });
}

/// Returns the name of a record, for people: the id as options take it, and its scope.
pub fn name(key: &RecordKey) -> String {
    match key.scope.as_str() {
        "" => key.id.to_string(),
        scope => format!("{} (scope {})", key.id, scope.replace('\u{1}', "of hapax itself: ")),
    }
}

/// Returns an object that names a record.
pub fn named(key: &RecordKey) -> Value {
    json!({ "scope": key.scope.as_str(), "id": key.id.to_string() })
}

/// Adds the time for which a record lasts.
pub fn timed(object: &mut Value, left: Duration) {
    object["expires_in_seconds"] = left.as_secs_f64().into();
    object["expires_at"] = at(left).into();
}

/// Returns the end of a record. Stores tell the time that is left by their own clock.
fn ends(left: Duration) -> String {
    format!("for another {} (until {} by this machine's clock)", rough(left), at(left).unwrap_or("?".into()))
}

fn at(left: Duration) -> Option<String> {
    let at = jiff::Timestamp::now().checked_add(left).ok()?;
    jiff::Timestamp::from_second(at.as_second()).ok().map(|at| at.to_string())
}

/// Returns a result as text, where it is text.
fn readable(result: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(result) else {
        return format!(": {}", Key::describe(&result[..result.len().min(64)]));
    };
    let start: String = text.chars().take(RESULT_CHARS).collect();
    let cut =
        if start.len() < text.len() { format!("… (the first {RESULT_CHARS} characters)") } else { String::new() };
    format!(": {}{cut}", line(&start))
}

/// Returns two hexadecimal digits a byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::printable::is_printable;
    use hapax_store::{Fingerprint, Scope};

    fn key() -> RecordKey {
        RecordKey::new(&Scope::new("orders").unwrap(), Key::new().text("eu").int(17))
    }

    fn done(result: Option<&[u8]>) -> Inspected {
        let fingerprint = Some(Fingerprint([0xab; 16]));
        Inspected::new(
            RecordState::Completed,
            Duration::from_millis(90_500),
            Some(7),
            fingerprint,
            result.map(<[u8]>::to_vec),
        )
    }

    #[test]
    fn a_record_is_printed_with_all_that_is_known_of_it() {
        let text =
            Shown { key: &key(), record: Some(done(Some(b"paid\n\x1b[31m"))), attempts: AttemptCount::default() }
                .text();
        assert!(text.starts_with("eu/17 (scope orders)\n  state        completed: a duplicate"), "{text}");
        assert!(text.contains("for another 90.5 s (until 2"), "{text}");
        assert!(text.contains("  token        7\n") && text.contains("  fingerprint  abab"), "{text}");
        assert!(
            text.ends_with("  result       10 bytes: paid\\n\\u{1b}[31m\n"),
            "no terminal is told anything: {text}"
        );
        let absent = Shown { key: &key(), record: None, attempts: AttemptCount::default() };
        assert!(absent.text().contains("no record"));
        assert_eq!(absent.json(), "{\"id\":\"eu/17\",\"scope\":\"orders\",\"state\":null}\n");
    }

    #[test]
    fn what_is_in_doubt_is_shown_with_its_age_and_holder() {
        let begun = SystemTime::now() - Duration::from_secs(3_600 * 5);
        let token = begun.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros() as u64;
        let before = Before::new(token, Some(hapax_store::HeldBy::of("worker-7")));
        let record = Inspected::new(RecordState::InDoubt, Duration::from_secs(60), Some(token), None, None);
        let record = Some(record.in_doubt(Some(before)));
        let shown = Shown { key: &key(), record, attempts: AttemptCount::default() };
        assert!(shown.text().contains(&format!("  in doubt     begun 5 h ago by worker-7, token {token}\n")));
    }

    #[test]
    fn what_was_put_aside_is_not_called_done() {
        let sent = hapax_store::attempt_count::Sent::new(Some(3), None);
        let attempts = AttemptCount::failures(5).put_aside(sent);
        let shown = Shown { key: &key(), record: None, attempts };
        let says =
            "  state        aside: not done; it was put aside, and is handled when it is sent anew\n  attempts     5\n";
        assert!(shown.text().ends_with(says), "{}", shown.text());
        let json = shown.json();
        assert!(json.contains("\"attempts\":5") && json.contains("\"put_aside\":true,") && json.contains("\"aside\""));
        // It was sent anew, and somebody has it.
        let again = Shown { key: &key(), record: Some(done(None)), attempts };
        assert!(!again.text().contains("aside") && again.json().contains("\"put_aside\":false"));
    }

    #[test]
    fn no_terminal_is_told_anything_by_results_either() {
        let hostile = "{\"a\": \"\\n\"} \u{9b}31m \u{202e}dlog \u{7f}\u{e0001} ka\u{308}se";
        let printed = readable(hostile.as_bytes());
        assert_eq!(printed, ": {\"a\": \"\\n\"} \\u{9b}31m \\u{202e}dlog \\u{7f}\\u{e0001} ka\u{308}se");
        let line =
            Shown { key: &key(), record: Some(done(Some(hostile.as_bytes()))), attempts: AttemptCount::default() }
                .json();
        assert!(line.trim_end().chars().all(is_printable), "{line:?}");
        assert!(line.contains("\\u009b31m") && line.contains("\\udb40\\udc01 ka\u{308}se"), "{line}");
        let read: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["result"], hostile);
    }

    #[test]
    fn long_results_and_those_that_are_no_text_are_cut() {
        assert!(readable(&b"x".repeat(3_000)).ends_with("x… (the first 2000 characters)"));
        assert_eq!(readable(&[255, 0]), ": 0xff00");
        assert_eq!(readable(&[255; 100]).len(), 2 + 2 + 2 * 64);
        assert_eq!(readable(b""), ": ");
    }

    #[test]
    fn programs_get_results_whole_as_text_or_as_digits() {
        let json = |result: Option<&[u8]>| {
            let line = Shown { key: &key(), record: Some(done(result)), attempts: AttemptCount::default() }.json();
            serde_json::from_str::<Value>(&line).unwrap()
        };
        let long = json(Some(&b"x".repeat(3_000)));
        assert_eq!((long["result"].as_str().unwrap().len(), &long["result_bytes"]), (3_000, &json!(3_000)));
        assert_eq!(json(Some(&[255, 0]))["result_hex"], "ff00");
        let none = json(None);
        assert!(none["result_bytes"].is_null() && none.get("result").is_none());
        assert_eq!((&none["token"], &none["expires_in_seconds"]), (&json!(7), &json!(90.5)));
    }
}
