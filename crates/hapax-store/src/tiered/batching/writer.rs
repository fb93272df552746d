//! The task that writes behind.

use super::call::call;
use super::client::Client;
use super::nodes::Node;
use super::operations::Records;
use crate::tiered::breaker::back_off;
use crate::{ErrorKind, Record, StoreError};
use hapax::seam::Digest;
use std::sync::Arc;
use tokio::sync::SemaphorePermit;

impl Client {
    /// Adds records that a node is told of later, in this order.
    pub(crate) fn write_behind(
        self: &Arc<Self>,
        node: &Node,
        records: impl IntoIterator<Item = (Record, Digest)>,
        permits: SemaphorePermit<'_>,
    ) {
        if node.write_behind.push(records, permits) {
            start(self, node.number);
        }
    }
}

/// A task that writes until all is written. If it is dropped (the runtime ends, the store panics),
/// the batch under way is put back.
struct Writer {
    client: Arc<Client>,
    /// The node that it writes to.
    node: u32,
    batch: Vec<(Record, Digest)>,
    runs: bool,
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.runs {
            let batch = std::mem::take(&mut self.batch);
            self.node().write_behind.abandon(batch);
        }
    }
}

fn start(client: &Arc<Client>, node: u32) {
    let mut writer = Writer { client: Arc::clone(client), node, batch: Vec::new(), runs: true };
    client.runtime.spawn(async move {
        // Lets tasks that are ready to check go first.
        tokio::task::yield_now().await;
        let limits = writer.client.caller.store.limits();
        let mut tries = 0;
        loop {
            match writer.node().write_behind.take(limits.batch * limits.under_way) {
                Some(batch) => writer.batch = batch,
                // Nothing is left; the queue has been told.
                None => return writer.stop(),
            }
            if writer.write(limits.batch).await {
                tries = 0;
            } else {
                tokio::time::sleep(back_off(tries, writer.client.caller.random.next())).await;
                tries = (tries + 1).min(16);
            }
        }
    });
}

impl Writer {
    fn stop(mut self) {
        self.runs = false;
    }

    fn node(&self) -> &Node {
        self.client.nodes.numbered(self.node)
    }

    /// Writes the batch that it has taken. Returns true if all of it was written.
    async fn write(&mut self, batch: usize) -> bool {
        let mut parts = tokio::task::JoinSet::new();
        for (part, records) in self.batch.chunks(batch).enumerate() {
            let (mut records, ids): (Vec<Record>, Vec<Digest>) = records.iter().cloned().unzip();
            let (client, node) = (Arc::clone(&self.client), self.node);
            let written =
                async move { call::<Records>(&client, client.nodes.numbered(node), &mut records, &ids).await };
            parts.spawn(async move { (part, written.await) });
        }
        let mut written = vec![false; self.batch.len()];
        let mut error = None;
        while let Some(ended) = parts.join_next().await {
            match ended {
                Ok((part, answers)) => {
                    for (i, answer) in answers.into_iter().enumerate() {
                        match answer {
                            Ok(()) => written[part * batch + i] = true,
                            Err(failed) => error = Some(failed),
                        }
                    }
                }
                Err(panic) => {
                    error = Some(StoreError::caused(ErrorKind::Unavailable, "hapax", "the store has panicked", panic))
                }
            }
        }
        let mut left = std::mem::take(&mut self.batch);
        let all = left.len();
        let mut place = 0;
        left.retain(|_| (!written[place], place += 1).0);
        let done = all - left.len();
        let all_written = error.is_none();
        self.node().write_behind.wrote(done, left, error);
        all_written
    }
}
