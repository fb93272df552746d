//! The servers that were met at an address: detects another server, and data that a server has
//! lost.

use super::introduction::Introduction;
use super::risk::{RedisRisk, RedisWarning};
use hapax_store::sync::{Mutex, Ordering, StdAtomicU64};

/// The last known server at an address, shared by all connections to it.
#[derive(Default)]
pub(super) struct Met {
    known: Mutex<Known>,
    losses: Losses,
}

/// Counts of noticed losses.
#[derive(Default)]
pub(super) struct Losses {
    pub(super) restarted: StdAtomicU64,
    pub(super) emptied: StdAtomicU64,
    pub(super) evicted: StdAtomicU64,
}

#[derive(Default)]
struct Known {
    run_id: Option<String>,
    evicted: Option<u64>,
    flushed: Option<u64>,
    /// The risks; `None` before the server was first met.
    risks: Option<Vec<RedisRisk>>,
}

/// Changes of a server since it was last met.
#[derive(Debug, Default, PartialEq, Eq)]
struct News {
    restarted: bool,
    emptied: bool,
    /// Keys that it has evicted meanwhile.
    evicted: u64,
    risks: Vec<RedisRisk>,
}

impl Met {
    /// Meets a server that has introduced itself: counts what it has lost, and warns of it.
    pub(super) fn meet(&self, address: &str, server: &Introduction) {
        let mut known = self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let news = known.meet(server);
        drop(known);
        // Relaxed: counts.
        self.losses.restarted.fetch_add(news.restarted.into(), Ordering::Relaxed);
        self.losses.emptied.fetch_add(news.emptied.into(), Ordering::Relaxed);
        self.losses.evicted.fetch_add(news.evicted, Ordering::Relaxed);
        news.tell(address);
    }

    pub(super) fn losses(&self) -> &Losses {
        &self.losses
    }

    pub(super) fn warnings(&self, address: &str) -> Vec<RedisWarning> {
        let known = self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let risks = known.risks.clone().unwrap_or_else(|| vec![RedisRisk::Unreached]);
        risks.into_iter().map(|risk| RedisWarning { address: address.to_owned(), risk }).collect()
    }
}

impl Known {
    /// Compares a server with the last known state, and stores the new state.
    fn meet(&mut self, server: &Introduction) -> News {
        let before = std::mem::take(self);
        *self = Known {
            run_id: server.run_id.clone().or_else(|| before.run_id.clone()),
            evicted: server.evicted.or(before.evicted),
            flushed: server.flushed.or(before.flushed),
            risks: Some(server.risks.clone()),
        };
        let restarted = before.run_id.is_some() && before.run_id != self.run_id;
        // The counts of another server say nothing about what was acknowledged here.
        let more = |now: Option<u64>, before: Option<u64>| match now.zip(before) {
            Some((now, before)) if !restarted => now.saturating_sub(before),
            _ => 0,
        };
        let known = before.risks.unwrap_or_default();
        News {
            restarted,
            emptied: restarted && server.is_empty || more(server.flushed, before.flushed) > 0,
            evicted: more(server.evicted, before.evicted),
            risks: server.risks.iter().filter(|risk| !known.contains(risk)).cloned().collect(),
        }
    }
}

impl News {
    #[cfg(feature = "tracing")]
    fn tell(&self, address: &str) {
        for risk in &self.risks {
            tracing::warn!(backend = "redis", address, "the server may forget: {risk}");
        }
        if self.emptied {
            tracing::warn!(backend = "redis", address, "the server was emptied, or came back without its keys");
        } else if self.restarted {
            tracing::warn!(backend = "redis", address, "the server has restarted, or another one has its place");
        }
        if self.evicted > 0 {
            tracing::warn!(backend = "redis", address, keys = self.evicted, "the server has evicted keys");
        }
    }

    #[cfg(not(feature = "tracing"))]
    fn tell(&self, _address: &str) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::role::Role;

    fn server(run_id: Option<&str>, is_empty: bool) -> Introduction {
        let run_id = run_id.map(Into::into);
        Introduction { role: Role::Master, run_id, is_empty, evicted: Some(0), flushed: Some(0), risks: vec![] }
    }

    #[test]
    fn who_comes_back_is_noticed_once_and_so_is_what_it_lost() {
        let mut known = Known::default();
        let nothing = News::default;
        assert_eq!(known.meet(&server(Some("a"), true)), nothing(), "it is new");
        assert_eq!(known.meet(&server(Some("a"), true)), nothing(), "another connection");
        assert_eq!(known.meet(&server(Some("b"), false)), News { restarted: true, ..nothing() }, "with its keys");
        assert_eq!(known.meet(&server(None, true)), nothing(), "it does not say who it is");
        assert_eq!(known.meet(&server(Some("c"), true)), News { restarted: true, emptied: true, ..nothing() });
        assert_eq!(known.meet(&server(Some("c"), true)), nothing());

        let flushed = Introduction { flushed: Some(2), evicted: Some(7), ..server(Some("c"), false) };
        assert_eq!(known.meet(&flushed), News { emptied: true, evicted: 7, ..nothing() });
        assert_eq!(known.meet(&flushed), nothing());
        let another = Introduction { flushed: Some(9), evicted: Some(9), ..server(Some("d"), false) };
        assert_eq!(known.meet(&another), News { restarted: true, ..nothing() }, "its counts are its own");
        // The server's counts were reset to zero.
        assert_eq!(known.meet(&server(Some("d"), false)), nothing());
    }

    #[test]
    fn a_risk_is_news_once_and_a_warning_as_long_as_it_lasts() {
        let met = Met::default();
        assert_eq!(met.warnings("here")[0].risk, RedisRisk::Unreached);
        let risky = |risks: &[RedisRisk]| Introduction { risks: risks.into(), ..server(Some("a"), true) };
        let both = [RedisRisk::NotPersisted, RedisRisk::Evicts { policy: "allkeys-lru".into() }];
        let mut known = Known::default();
        assert_eq!(known.meet(&risky(&both[..1])).risks, both[..1]);
        assert_eq!(known.meet(&risky(&both)).risks, both[1..]);
        assert_eq!(known.meet(&risky(&both)).risks, []);
        met.meet("here", &risky(&both));
        assert_eq!(met.warnings("here").len(), 2);
        assert!(met.warnings("here")[1].to_string().starts_with("here: it evicts ids"));
        met.meet("here", &risky(&[]));
        assert_eq!(met.warnings("here"), []);
    }
}
