//! The order of acknowledgements: messages that are done may be acknowledged, either each of them,
//! or those before which nothing is unfinished.

use super::source::{Acks, Partition};
use std::collections::{BTreeMap, HashMap};

/// A message, in the order of receipt.
pub(super) type Ticket = u64;

/// The messages that were received and are not acknowledged.
pub(super) struct Order {
    acks: Acks,
    /// Flags of the messages of each partition that are done: only if acknowledgements are
    /// cumulative.
    partitions: HashMap<Partition, BTreeMap<Ticket, bool>>,
    ready: Vec<Ticket>,
}

impl Order {
    pub(super) fn new(acks: Acks) -> Self {
        Order { acks, partitions: HashMap::new(), ready: Vec::new() }
    }

    pub(super) fn received(&mut self, partition: &Partition, ticket: Ticket) {
        if self.acks == Acks::Cumulative {
            match self.partitions.get_mut(partition) {
                Some(of_partition) => {
                    debug_assert!(of_partition.last_key_value().is_none_or(|(&last, _)| last < ticket));
                    of_partition.insert(ticket, false);
                }
                None => drop(self.partitions.insert(partition.clone(), BTreeMap::from([(ticket, false)]))),
            }
        }
    }

    /// Notes that a message is done; messages that may be acknowledged now become ready.
    pub(super) fn done(&mut self, partition: &Partition, ticket: Ticket) {
        if self.acks == Acks::Each {
            return self.ready.push(ticket);
        }
        let Some(of_partition) = self.partitions.get_mut(partition) else { return };
        of_partition.entry(ticket).and_modify(|is_done| *is_done = true);
        while let Some(first) = of_partition.first_entry()
            && *first.get()
        {
            self.ready.push(first.remove_entry().0);
        }
        if of_partition.is_empty() {
            self.partitions.remove(partition);
        }
    }

    /// Drops the messages of a partition that are not ready: they will not be acknowledged any
    /// more.
    pub(super) fn close(&mut self, partition: &Partition) {
        self.partitions.remove(partition);
    }

    /// Puts back messages that were taken, and not acknowledged.
    pub(super) fn again(&mut self, tickets: Vec<Ticket>) {
        self.ready.splice(..0, tickets);
    }

    /// Returns true if a matching message may be acknowledged.
    pub(super) fn has_ready_of(&self, is_such: impl Fn(Ticket) -> bool) -> bool {
        self.ready.iter().any(|&ticket| is_such(ticket))
    }

    /// Takes the messages that may be acknowledged, in order.
    pub(super) fn take_ready(&mut self) -> Vec<Ticket> {
        std::mem::take(&mut self.ready)
    }

    /// Returns true if a message may be acknowledged.
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_acknowledged_when_it_is_done() {
        let (mut order, partition) = (Order::new(Acks::Each), Partition::default());
        (0..3).for_each(|ticket| order.received(&partition, ticket));
        order.done(&partition, 2);
        order.done(&partition, 0);
        assert_eq!(order.take_ready(), [2, 0]);
        assert!(!order.has_ready());
    }

    #[test]
    fn none_overtakes_an_unfinished_one_of_its_partition() {
        let mut order = Order::new(Acks::Cumulative);
        let [a, b] = [0, 1].map(|number| Partition::new("topic", number));
        (0..6).for_each(|ticket| order.received(if ticket % 2 == 0 { &a } else { &b }, ticket));
        order.done(&a, 2);
        order.done(&b, 1);
        assert_eq!(order.take_ready(), [1], "0 is unfinished, and of another partition than 1");
        order.done(&a, 0);
        assert_eq!(order.take_ready(), [0, 2]);
        order.done(&b, 5);
        order.close(&b);
        order.done(&b, 3);
        assert!(!order.has_ready(), "of a partition that was closed nothing is acknowledged");
        order.done(&a, 4);
        assert_eq!(order.take_ready(), [4]);
        assert!(order.partitions.is_empty());
    }

    #[test]
    fn any_order_of_completion_leads_to_the_order_of_receipt() {
        let mut random = testkit::random::Random(1);
        for _ in 0..200 {
            let (mut order, partition) = (Order::new(Acks::Cumulative), Partition::default());
            let mut open: Vec<Ticket> = (0..20).collect();
            open.iter().for_each(|&ticket| order.received(&partition, ticket));
            let mut acknowledged = Vec::new();
            while !open.is_empty() {
                let done = open.swap_remove(random.below(open.len() as u64) as usize);
                order.done(&partition, done);
                acknowledged.extend(order.take_ready());
                let first_open = open.iter().min().copied().unwrap_or(20);
                assert_eq!(acknowledged, (0..first_open).collect::<Vec<_>>());
            }
        }
    }
}
