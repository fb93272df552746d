//! The cases of `docs/conformance.json`, which every language runs: ids, options, the engine.
//! (Those of HTTP are run by `hapax-http`.)

use hapax::{
    Attempt, Claim, ClaimOptions, Dedup, Error, Forgotten, History, Int, Key, ManualClock, Timestamp, Unconfirmed,
};
use serde_json::Value;
use std::collections::HashMap;
use std::time::Duration;

fn cases() -> Value {
    serde_json::from_str(include_str!("../../docs/conformance.json")).unwrap()
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().unwrap()
}

fn secs(value: &Value) -> Duration {
    Duration::from_secs_f64(value.as_f64().unwrap())
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.replace('-', "");
    (0..digits.len() / 2).map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).unwrap()).collect()
}

/// Returns the bytes of an id, as a program in Rust makes them.
fn id_of(case: &Value) -> Vec<u8> {
    if let Some(text) = case.as_str() {
        return text.into();
    }
    if let Some(int) = case.as_i64() {
        return Int::from(int).as_ref().to_vec();
    }
    if let Some(int) = case.as_u64() {
        return Int::from(i128::from(int)).as_ref().to_vec();
    }
    if let Some(hex) = case["hex"].as_str().or(case["uuid"].as_str()) {
        return unhex(hex);
    }
    let mut key = Key::new();
    for part in list(case, "key") {
        match part {
            Value::Null => key.null(),
            Value::String(text) => key.text(text),
            int => key.int(int.as_i64().unwrap()),
        };
    }
    key.as_ref().to_vec()
}

fn engine(options: &Value, clock: ManualClock) -> Result<Dedup, Error> {
    let mut builder = Dedup::builder().capacity(1000).clock(clock);
    for (name, value) in options.as_object().unwrap() {
        builder = match name.as_str() {
            "window_s" => builder.window(secs(value)),
            "lease_s" => builder.lease(secs(value)),
            "capacity" => builder.capacity(value.as_u64().unwrap() as usize),
            "refresh_on_duplicate" => builder.refresh_on_duplicate(value.as_bool().unwrap()),
            "history" => builder.history(History {
                horizon: secs(&value["horizon_s"]),
                ids: value["ids"].as_u64().unwrap() as usize,
                false_positive_rate: value["rate"].as_f64().unwrap(),
                unconfirmed: match value["unconfirmed"].as_str() {
                    Some("fresh") => Unconfirmed::Fresh,
                    _ => Unconfirmed::Duplicate,
                },
            }),
            other => panic!("an option that this test does not know: {other}"),
        };
    }
    builder.build()
}

/// Returns what a step answers.
fn took(dedup: &Dedup, claims: &mut HashMap<String, Claim<'static>>, step: &Value) -> Value {
    let at = step["at_s"].as_u64().map(Timestamp::from_secs);
    if !step["check"].is_null() {
        let id = id_of(&step["check"]);
        return at.map_or_else(|| dedup.check(&id), |at| dedup.check_at(&id, at)).outcome().to_string().into();
    }
    if step["batch"].is_array() {
        let (ids, mut verdicts) = (list(step, "batch").iter().map(id_of), Vec::new());
        match at {
            Some(at) => dedup.check_batch_at(ids, at, &mut verdicts),
            None => dedup.check_batch(ids, &mut verdicts),
        }
        return verdicts.iter().map(|verdict| verdict.outcome().to_string()).collect();
    }
    if !step["contains"].is_null() {
        return dedup.contains(id_of(&step["contains"])).map(|tier| tier.to_string()).into();
    }
    if !step["forget"].is_null() {
        return match dedup.forget(id_of(&step["forget"])) {
            Forgotten::Entirely => "entirely",
            Forgotten::ExceptByHistory => "except by history",
            Forgotten::InProgress => "in progress",
        }
        .into();
    }
    if !step["claim"].is_null() {
        let options =
            step["fingerprint"].as_str().map_or_else(ClaimOptions::new, |it| ClaimOptions::new().fingerprint(it));
        return match dedup.claim_with(id_of(&step["claim"]), options) {
            Attempt::Claimed(claim) => {
                claims.insert(step["as"].as_str().unwrap().to_owned(), claim.into_owned());
                "claimed"
            }
            Attempt::InProgress { .. } => "in progress",
            Attempt::Duplicate(_) => "duplicate",
            Attempt::Mismatch => "mismatch",
            Attempt::TooMany => "too many",
        }
        .into();
    }
    let mut claim = |how: &str| step[how].as_str().map(|name| claims.remove(name).unwrap());
    let ended = if let Some(claim) = claim("complete") {
        claim.complete()
    } else if let Some(claim) = claim("release") {
        claim.release()
    } else if let Some(claim) = claim("fail") {
        claim.fail(secs(&step["for_s"]))
    } else {
        claims.get_mut(step["renew"].as_str().unwrap()).unwrap().renew(secs(&step["for_s"]))
    };
    ended.map_or("lost", |()| "ended").into()
}

#[test]
fn ids_are_these_bytes() {
    for case in list(&cases(), "ids") {
        assert_eq!(id_of(&case["id"]), unhex(case["hex"].as_str().unwrap()), "{case}");
    }
}

#[test]
fn options_are_refused_by_name() {
    for case in list(&cases(), "refused") {
        let error = engine(&case["options"], ManualClock::new()).unwrap_err().to_string();
        assert!(error.contains(&format!("`{}`: got ", case["option"].as_str().unwrap())), "{case}: {error}");
    }
}

#[test]
fn the_engine_answers_so() {
    for case in list(&cases(), "engine") {
        let (clock, mut claims) = (ManualClock::new(), HashMap::new());
        clock.advance(Duration::from_secs(1_000_000));
        let dedup = engine(&case["options"], clock.clone()).unwrap();
        for step in list(case, "steps") {
            if step["advance_s"].is_null() {
                assert_eq!(took(&dedup, &mut claims, step), step["is"], "{}: {step}", case["name"]);
            } else {
                clock.advance(secs(&step["advance_s"]));
            }
        }
    }
}
