//! Each rule left out, and a test that notices.

use super::rules::{Rule, without};
use super::*;

/// Runs a script, and returns what was seen. A digit: that message fails, and it counts (`+`) or
/// not (`-`). `v`: a try in vain, `w`: none; both show the wait for the next in half seconds. `s`:
/// a success. `g`, `h`: almost an hour passes, or an hour. `?`: an outage (`o`), or none (`.`).
fn seen(script: &str) -> String {
    let (mut outage, mut now) = (Outage::default(), Instant::now());
    let mut seen = String::new();
    for step in script.chars() {
        match step {
            '0'..='9' => {
                let counts = outage.failed(StoredId::new(&[step as u8]), now, 0);
                seen.push(if counts { '+' } else { '-' });
            }
            's' => outage.succeeded(),
            'h' => now += LONGEST,
            'g' => now += LONGEST - Duration::from_nanos(1),
            '?' => seen.push(if outage.since().is_some() { 'o' } else { '.' }),
            _ => {
                if step == 'v' {
                    outage.tried_in_vain(now, 0);
                }
                let wait = outage.next().map_or(0, |next| (next - now).as_millis() / 500);
                seen.push_str(&wait.to_string());
            }
        }
    }
    seen
}

/// Returns true if no more messages are remembered after a thousand outages than may be.
fn is_bounded() -> bool {
    let (mut outage, now) = (Outage::default(), Instant::now());
    (0..1_000_u32).all(|round| {
        for n in 0..DIFFERENT as u32 {
            outage.failed(StoredId::new(&[round.to_le_bytes(), n.to_le_bytes()].concat()), now, 0);
        }
        outage.succeeded();
        outage.forgiven.len() < FORGIVEN_MAX + DIFFERENT
    })
}

/// Each rule: a script, and what it shows.
const CASES: [(Rule, &str, &str); 11] = [
    (Rule::Different, "11111?", "+++++."),
    (Rule::Enough, "12345?", "++++-o"),
    (Rule::Between, "1234s5?", "+++++."),
    (Rule::NoneCounts, "1234561g1", "++++----"),
    (Rule::Longest, "12345h6?", "++++-+o"),
    (Rule::Forgive, "12345s14", "++++---"),
    (Rule::NotTheLast, "12345s5", "++++-+"),
    (Rule::Once, "12345s11", "++++--+"),
    (Rule::FirstWait, "12345w", "++++-1"),
    (Rule::LongerWaits, "12345vvv", "++++-248"),
    (Rule::Ends, "12345s?6", "++++-.+"),
];

#[test]
fn each_rule_that_is_left_out_is_noticed() {
    for (rule, script, shows) in CASES {
        assert_eq!(seen(script), shows, "{script} with all rules");
        let mutant = without(Some(rule), || seen(script));
        assert_ne!(mutant, shows, "{script} without {rule:?}");
    }
    assert!(is_bounded() && !without(Some(Rule::Bound), is_bounded));
}
