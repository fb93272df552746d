//! The offsets at which partitions begin: those that the group has committed.
//!
//! The client would read them by itself when partitions are assigned. But if that fails for one of
//! them, it reports an error, and reads nothing of this partition until the next rebalance. So they
//! are read here, with tries, before the partitions are assigned.

use crate::error::KafkaSourceError;
use crate::message::partition;
use crate::settings::Reset;
use hapax::seam::random;
use hapax_store::back_off::BackOff;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::{Offset, TopicPartitionList};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The time that one request may take.
const REQUEST: Duration = Duration::from_secs(10);
const BACK_OFF: BackOff = BackOff { first: Duration::from_millis(100), max: Duration::from_secs(5) };

/// Sets the offset of each partition in a list to that at which it begins; as a number, if it must
/// be `absolute`. Blocks, for `within` at most, or until `stop`. `failed` is told of each try that
/// fails.
pub(crate) fn begin<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    list: &mut TopicPartitionList,
    reset: Reset,
    absolute: bool,
    within: Duration,
    stop: &AtomicBool,
    failed: impl Fn(KafkaError),
) -> Result<(), KafkaSourceError> {
    let deadline = Instant::now() + within;
    let mut failures = 0;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let found = committed(consumer, list, left.min(REQUEST)).and_then(|committed| {
            if absolute { numbered(consumer, committed, reset, deadline) } else { Ok(committed) }
        });
        let cause = match found {
            Ok(found) => return apply(list, &found, reset),
            Err(cause) => cause,
        };
        failures += 1;
        failed(cause.clone());
        let wait = BACK_OFF.after(failures, random::any());
        if Instant::now() + wait >= deadline || stop.load(Ordering::Relaxed) {
            let partitions = list.elements().iter().map(|one| partition(one.topic(), one.partition())).collect();
            return Err(KafkaSourceError::Offsets { partitions, within, cause });
        }
        std::thread::sleep(wait);
    }
}

/// Asks for the offsets that are committed: of all partitions, or it is an error.
fn committed<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    list: &TopicPartitionList,
    within: Duration,
) -> KafkaResult<TopicPartitionList> {
    let mut asked = TopicPartitionList::with_capacity(list.count());
    for one in list.elements() {
        asked.add_partition(one.topic(), one.partition());
    }
    let committed = consumer.committed_offsets(asked, within)?;
    for one in committed.elements() {
        one.error()?;
    }
    Ok(committed)
}

/// Asks for the ends of the partitions for which nothing was committed.
fn numbered<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    committed: TopicPartitionList,
    reset: Reset,
    deadline: Instant,
) -> KafkaResult<TopicPartitionList> {
    for mut one in committed.elements() {
        if reset != Reset::Error && !matches!(one.offset(), Offset::Offset(_)) {
            let left = deadline.saturating_duration_since(Instant::now());
            let (low, high) = consumer.fetch_watermarks(one.topic(), one.partition(), left.min(REQUEST))?;
            one.set_offset(Offset::Offset(if reset == Reset::Earliest { low } else { high }))?;
        }
    }
    Ok(committed)
}

fn apply(list: &mut TopicPartitionList, committed: &TopicPartitionList, reset: Reset) -> Result<(), KafkaSourceError> {
    for one in committed.elements() {
        let offset = match (one.offset(), reset) {
            (Offset::Offset(offset), _) => Offset::Offset(offset),
            (_, Reset::Earliest) => Offset::Beginning,
            (_, Reset::Latest) => Offset::End,
            (_, Reset::Error) => {
                return Err(KafkaSourceError::NoOffset { partition: partition(one.topic(), one.partition()) });
            }
        };
        let set = list.set_partition_offset(one.topic(), one.partition(), offset);
        set.map_err(KafkaSourceError::when("setting where a partition begins"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_begins_where_it_was_committed_or_as_it_is_set() {
        let mut committed = TopicPartitionList::new();
        committed.add_partition_offset("t", 0, Offset::Offset(7)).unwrap();
        committed.add_partition_offset("t", 1, Offset::Invalid).unwrap();
        let begin = |reset| {
            let mut list = TopicPartitionList::new();
            list.add_partition_range("t", 0, 1);
            apply(&mut list, &committed, reset).map(|()| list.elements().iter().map(|one| one.offset()).collect())
        };
        let begun: Vec<Offset> = begin(Reset::Earliest).unwrap();
        assert_eq!(begun, [Offset::Offset(7), Offset::Beginning]);
        assert_eq!(begin(Reset::Latest).unwrap(), [Offset::Offset(7), Offset::End]);
        let refused = begin(Reset::Error).unwrap_err();
        assert!(matches!(&refused, KafkaSourceError::NoOffset { partition } if partition.number == 1), "{refused}");
    }
}
