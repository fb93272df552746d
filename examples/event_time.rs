//! Time comes with the events, so with a fixed seed the same input gets the same answers at every
//! run. An event whose time cannot be right is put aside, and changes nothing.
//!
//! `cargo run --example event_time`

use hapax::{Dedup, EventTime, Key, Outcome, Timestamp};
use std::time::Duration;

fn main() -> Result<(), hapax::Error> {
    let readings = [
        ("sensor-1", 7, 100_000),
        ("sensor-1", 7, 100_020), // heard by a second gateway
        ("sensor-2", 7, 100_030), // another sensor
        ("sensor-1", 8, 160_000),
        ("sensor-1", 7, 159_000), // late: judged at 160_000, as the window goes by the largest time so far
        ("sensor-3", 1, 4_294_967_295), // a broken clock
        ("sensor-2", 6, 30_000),  // from a gateway that was cut off for two minutes
        ("sensor-1", 7, 470_000), // the counter has started again
    ];

    // The times are milliseconds since the network was switched on: not times of day. (With times
    // of day, `EventTime::wall` compares them with the clock.)
    let times = EventTime::unrelated().max_jump(Duration::from_secs(3_600)).allowed_lateness(Duration::from_secs(60));
    let dedup =
        Dedup::builder().window(Duration::from_secs(300)).capacity(10_000).seed(17).event_time(times).build()?;
    let mut id = Key::new();
    let mut aside = Vec::new();
    for (sensor, counter, millis) in readings {
        // The id has several parts, and is unambiguous whatever they contain.
        id.clear();
        let verdict = dedup.check_at(id.text(sensor).int(counter), Timestamp::from_millis(millis));
        println!("{millis} {sensor} {counter}: {:?}", verdict.outcome());
        match verdict.outcome() {
            Outcome::Fresh => {} // handle it
            Outcome::Duplicate | Outcome::InProgress => {}
            Outcome::Refused(_) => aside.push((sensor, counter, millis)),
        }
    }
    assert_eq!(dedup.stats().fresh, 4);
    assert_eq!(aside, [("sensor-3", 1, 4_294_967_295), ("sensor-2", 6, 30_000)]);
    Ok(())
}
