//! A watch over the servers at an address: it detects another server, and data that a server has
//! lost.

use super::info::ServerInfo;
use super::warning::{RedisRisk, RedisWarning};
use hapax_store::sync::{Mutex, Ordering, StdAtomicU64, lock};

/// The last seen server at an address, shared by all connections to it.
#[derive(Default)]
pub(crate) struct Watch {
    last: Mutex<LastSeen>,
    losses: Losses,
}

/// Counts of noticed losses.
#[derive(Default)]
pub(crate) struct Losses {
    pub(crate) restarted: StdAtomicU64,
    pub(crate) emptied: StdAtomicU64,
    pub(crate) evicted: StdAtomicU64,
}

#[derive(Default)]
struct LastSeen {
    run_id: Option<String>,
    evicted: Option<u64>,
    flushed: Option<u64>,
    /// The risks; `None` before a server was first seen.
    risks: Option<Vec<RedisRisk>>,
}

/// Changes of a server since it was last seen.
#[derive(Debug, Default, PartialEq, Eq)]
struct Changes {
    restarted: bool,
    emptied: bool,
    /// Keys that it has evicted meanwhile.
    evicted: u64,
    risks: Vec<RedisRisk>,
}

impl Watch {
    /// Compares a server with the last one: counts what it has lost, and warns of it.
    pub(crate) fn observe(&self, address: &str, server: &ServerInfo) {
        let mut last = lock(&self.last);
        let changes = last.observe(server);
        drop(last);
        // Relaxed: counts.
        self.losses.restarted.fetch_add(changes.restarted.into(), Ordering::Relaxed);
        self.losses.emptied.fetch_add(changes.emptied.into(), Ordering::Relaxed);
        self.losses.evicted.fetch_add(changes.evicted, Ordering::Relaxed);
        changes.log(address);
    }

    pub(crate) fn losses(&self) -> &Losses {
        &self.losses
    }

    pub(crate) fn warnings(&self, address: &str) -> Vec<RedisWarning> {
        let last = lock(&self.last);
        let risks = last.risks.clone().unwrap_or_else(|| vec![RedisRisk::Unreached]);
        risks.into_iter().map(|risk| RedisWarning { address: address.to_owned(), risk }).collect()
    }
}

impl LastSeen {
    /// Compares a server with the last known state, and stores the new state.
    fn observe(&mut self, server: &ServerInfo) -> Changes {
        let before = std::mem::take(self);
        *self = LastSeen {
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
        Changes {
            restarted,
            emptied: restarted && server.is_empty || more(server.flushed, before.flushed) > 0,
            evicted: more(server.evicted, before.evicted),
            risks: server.risks.iter().filter(|risk| !known.contains(risk)).cloned().collect(),
        }
    }
}

impl Changes {
    #[cfg(feature = "tracing")]
    fn log(&self, address: &str) {
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
    fn log(&self, _address: &str) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::role::Role;

    fn server(run_id: Option<&str>, is_empty: bool) -> ServerInfo {
        let run_id = run_id.map(Into::into);
        let (evicted, flushed) = (Some(0), Some(0));
        ServerInfo { role: Role::Master, run_id, client_id: None, is_empty, evicted, flushed, risks: vec![] }
    }

    #[test]
    fn who_comes_back_is_noticed_once_and_so_is_what_it_lost() {
        let mut known = LastSeen::default();
        let nothing = Changes::default;
        assert_eq!(known.observe(&server(Some("a"), true)), nothing(), "it is new");
        assert_eq!(known.observe(&server(Some("a"), true)), nothing(), "another connection");
        assert_eq!(known.observe(&server(Some("b"), false)), Changes { restarted: true, ..nothing() }, "with its keys");
        assert_eq!(known.observe(&server(None, true)), nothing(), "it does not say who it is");
        assert_eq!(known.observe(&server(Some("c"), true)), Changes { restarted: true, emptied: true, ..nothing() });
        assert_eq!(known.observe(&server(Some("c"), true)), nothing());

        let flushed = ServerInfo { flushed: Some(2), evicted: Some(7), ..server(Some("c"), false) };
        assert_eq!(known.observe(&flushed), Changes { emptied: true, evicted: 7, ..nothing() });
        assert_eq!(known.observe(&flushed), nothing());
        let another = ServerInfo { flushed: Some(9), evicted: Some(9), ..server(Some("d"), false) };
        assert_eq!(known.observe(&another), Changes { restarted: true, ..nothing() }, "its counts are its own");
        // The server's counts were reset to zero.
        assert_eq!(known.observe(&server(Some("d"), false)), nothing());
    }

    #[test]
    fn a_risk_is_news_once_and_a_warning_as_long_as_it_lasts() {
        let watch = Watch::default();
        assert_eq!(watch.warnings("here")[0].risk, RedisRisk::Unreached);
        let risky = |risks: &[RedisRisk]| ServerInfo { risks: risks.into(), ..server(Some("a"), true) };
        let both = [RedisRisk::NotPersisted, RedisRisk::Evicts { policy: "allkeys-lru".into() }];
        let mut known = LastSeen::default();
        assert_eq!(known.observe(&risky(&both[..1])).risks, both[..1]);
        assert_eq!(known.observe(&risky(&both)).risks, both[1..]);
        assert_eq!(known.observe(&risky(&both)).risks, []);
        watch.observe("here", &risky(&both));
        assert_eq!(watch.warnings("here").len(), 2);
        assert!(watch.warnings("here")[1].to_string().starts_with("here: it evicts ids"));
        watch.observe("here", &risky(&[]));
        assert_eq!(watch.warnings("here"), []);
    }
}
