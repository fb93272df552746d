//! Lags, as the client's statistics have them.

use crate::message::partition;
use hapax_store::sync::lock;
use hapax_stream::Partition;
use rdkafka::Statistics;
use std::sync::Mutex;

/// The number of messages of a partition that are not done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionLag {
    /// The partition.
    pub partition: Partition,
    /// The number of offsets from the one that is stored for the next commit to the end. It may be
    /// more than there are messages: the end of a producer's transaction has an offset, too, and so
    /// has what was compacted away.
    pub messages: u64,
}

#[derive(Default)]
pub(crate) struct Lags(Mutex<Vec<PartitionLag>>);

impl Lags {
    pub(crate) fn learn(&self, statistics: &Statistics) {
        let mut lags = Vec::new();
        for topic in statistics.topics.values() {
            for one in topic.partitions.values().filter(|one| one.desired && one.partition >= 0) {
                // (-1: nothing was stored yet.)
                if let Ok(messages) = u64::try_from(one.consumer_lag_stored) {
                    lags.push(PartitionLag { partition: partition(&topic.topic, one.partition), messages });
                }
            }
        }
        lags.sort_by(|a, b| a.partition.cmp(&b.partition));
        *lock(&self.0) = lags;
    }

    pub(crate) fn of_all(&self) -> Vec<PartitionLag> {
        lock(&self.0).clone()
    }
}
