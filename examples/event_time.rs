//! Time comes with the events, so the same input gets the same answers at every run.
//!
//! `cargo run --example event_time`

use hapax::{Dedup, Key, Timestamp};
use std::time::Duration;

fn main() -> Result<(), hapax::Error> {
    let readings = [
        ("sensor-1", 7, 100_000),
        ("sensor-1", 7, 100_020), // heard by a second gateway
        ("sensor-2", 7, 100_030), // another sensor
        ("sensor-1", 8, 160_000),
        ("sensor-1", 7, 159_000), // late: judged at 160_000, as the window goes by the largest time so far
        ("sensor-1", 7, 470_000), // the counter has started again
    ];

    let dedup = Dedup::builder().window(Duration::from_secs(300)).capacity(10_000).build()?;
    let mut id = Key::new();
    for (sensor, counter, millis) in readings {
        // An id of several parts, unambiguous whatever they contain.
        id.clear();
        let verdict = dedup.check_at(id.text(sensor).int(counter), Timestamp::from_millis(millis));
        println!("{millis} {sensor} {counter}: {:?}", verdict.outcome());
    }
    assert_eq!(dedup.stats().fresh, 4);
    Ok(())
}
