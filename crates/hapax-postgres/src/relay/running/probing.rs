//! Probes topics that pause.

use super::{Running, Said};
use crate::Publisher;
use crate::claims::queue::{self, Portion, Run};
use crate::relay::breaker::PROBES;
use futures_util::FutureExt as _;
use hapax::seam::random;
use hapax_store::StoreError;
use tokio::time::Instant;

/// The most topics that are probed together.
const PROBED: usize = 16;

impl<P: Publisher> Running<'_, P> {
    /// Returns the time to probe topics that pause, unless that waits for an answer.
    pub(super) fn probe_when(&self) -> Option<Instant> {
        let (runs, bytes) = self.publishing.in_flight();
        if self.is_stopping || self.is_probing || runs >= self.relay.batch || bytes >= self.relay.bytes {
            return None;
        }
        self.publishing.breakers().probe_at().map(|at| at.max(self.claim_at))
    }

    /// Probes topics, if it is time.
    pub(super) fn probe(&mut self, now: Instant) {
        let (runs, bytes) = self.publishing.in_flight();
        // Messages without a key, and as many keys.
        let room = (self.relay.batch - runs).div_ceil(2);
        let topics_max = (room / PROBES).clamp(1, PROBED);
        let topics = self.publishing.breakers().probes(topics_max, self.relay.publish_timeout, now);
        if topics.is_empty() {
            return;
        }
        let bytes = (self.relay.bytes - bytes) / (2 * topics.len());
        let portion = Portion { first: room.min(PROBES), behind: 0, bytes, lease: self.relay.lease() };
        let begin_until = now + self.relay.window();
        let (database, tables) = (self.relay.database.clone(), self.relay.tables.clone());
        self.is_probing = true;
        let probe = async move {
            let runs = queue::probe(&database, &tables, &topics, &portion).await;
            Said::Probed(topics, runs, begin_until)
        };
        self.calls.push(probe.boxed());
    }

    /// Begins to publish messages that probe whether those of their topics can be published.
    pub(super) fn probed(
        &mut self,
        topics: &[String],
        runs: Result<Vec<Run>, StoreError>,
        begin_until: Instant,
        now: Instant,
    ) -> Result<(), StoreError> {
        let (runs, error) = match runs {
            Ok(runs) => (runs, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        for topic in topics {
            let found = runs.iter().filter(|run| run.name == *topic).count();
            self.publishing.breakers().probing(topic, found, now, random::any());
        }
        if let Some(error) = error {
            self.claim_at = now + self.claims.failed(error, now)?;
        } else if !runs.is_empty() {
            self.claims.end();
            self.begin(runs, true, begin_until);
        }
        Ok(())
    }
}
