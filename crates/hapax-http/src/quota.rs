//! The limits of one scope, and of all together. Pure.
//!
//! ```text
//!              of one scope                   of all
//! reading      max_reading_per_scope          max_reading            requests whose bodies are coming
//! in flight    max_in_flight_per_scope        max_in_flight          requests whose keys are claimed or waited for, handlers
//! bytes        max_buffered_bytes_per_scope   max_buffered_bytes     bodies of requests and responses in memory
//! ```
//!
//! A scope over its own limit is refused alone (429), the limit of all refuses everybody (503). The
//! table of scopes has the scopes with current usage, and no others: no client can make it grow
//! without usage that is itself limited.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// A resource that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resource {
    Reading,
    InFlight,
    Bytes,
}

/// An amount of each resource: usage, or a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amounts {
    pub(super) reading: usize,
    pub(super) in_flight: usize,
    pub(super) bytes: usize,
}

impl Amounts {
    pub(super) fn of(&self, resource: Resource) -> usize {
        match resource {
            Resource::Reading => self.reading,
            Resource::InFlight => self.in_flight,
            Resource::Bytes => self.bytes,
        }
    }

    fn of_mut(&mut self, resource: Resource) -> &mut usize {
        match resource {
            Resource::Reading => &mut self.reading,
            Resource::InFlight => &mut self.in_flight,
            Resource::Bytes => &mut self.bytes,
        }
    }
}

/// The reason for which nothing more may be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// This scope is at its limit.
    Scope(Resource, usize),
    /// All scopes together are at the limit.
    All(Resource, usize),
    /// The server ends.
    Closing,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = |resource| match resource {
            Resource::Reading => "requests are being received",
            Resource::InFlight => "requests are in flight",
            Resource::Bytes => "bytes are in memory",
        };
        match *self {
            Full::Scope(resource, max) => write!(f, "{max} {}, as many as one scope may have", what(resource)),
            Full::All(resource, max) => write!(f, "{max} {}, as many as may be", what(resource)),
            Full::Closing => f.write_str("the server ends"),
        }
    }
}

/// Limits, and the usage.
#[derive(Debug)]
pub(super) struct Quotas {
    max: Amounts,
    max_per_scope: Amounts,
    used: Amounts,
    /// The scopes with usage, and no others.
    scopes: HashMap<Arc<str>, OfScope>,
}

#[derive(Debug, Default)]
struct OfScope {
    used: Amounts,
    turn: Turn,
}

/// The right to keep a processor busy for a scope: one request at a time holds it.
pub(super) type Turn = Arc<tokio::sync::Mutex<()>>;

impl Quotas {
    pub(super) fn new(max: Amounts, max_per_scope: Amounts) -> Self {
        Quotas { max, max_per_scope, used: Amounts::default(), scopes: HashMap::new() }
    }

    pub(super) fn used(&self) -> Amounts {
        self.used
    }

    /// Returns true if no request is read or in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.used.reading == 0 && self.used.in_flight == 0
    }

    /// Returns an error if a resource is exhausted: for this scope, or (with or without a scope)
    /// for all.
    pub(super) fn has_room(&self, scope: Option<&Arc<str>>, resource: Resource) -> Result<(), Full> {
        let of_scope = scope.and_then(|scope| self.scopes.get(scope)).map_or(0, |scope| scope.used.of(resource));
        let max_of_scope = self.max_per_scope.of(resource);
        if scope.is_some() && of_scope >= max_of_scope {
            return Err(Full::Scope(resource, max_of_scope));
        }
        match self.used.of(resource) < self.max.of(resource) {
            true => Ok(()),
            false => Err(Full::All(resource, self.max.of(resource))),
        }
    }

    /// Takes an amount, even if there is no room.
    pub(super) fn take(&mut self, scope: Option<&Arc<str>>, resource: Resource, amount: usize) {
        *self.used.of_mut(resource) += amount;
        let Some(scope) = scope.filter(|_| amount > 0) else { return };
        match self.scopes.get_mut(scope) {
            Some(of_scope) => *of_scope.used.of_mut(resource) += amount,
            None => {
                let mut of_scope = OfScope::default();
                *of_scope.used.of_mut(resource) = amount;
                self.scopes.insert(Arc::clone(scope), of_scope);
            }
        }
    }

    /// Gives an amount back.
    pub(super) fn give_back(&mut self, scope: Option<&Arc<str>>, resource: Resource, amount: usize) {
        *self.used.of_mut(resource) -= amount;
        let Some(scope) = scope.filter(|_| amount > 0) else { return };
        debug_assert!(self.scopes.contains_key(scope), "a scope that has taken something is in the table");
        let Some(of_scope) = self.scopes.get_mut(scope) else { return };
        *of_scope.used.of_mut(resource) -= amount;
        if of_scope.used == Amounts::default() {
            self.scopes.remove(scope);
            // After a rush its memory is freed, too.
            if self.scopes.capacity() > 1_024 && self.scopes.len() < self.scopes.capacity() / 8 {
                self.scopes.shrink_to(2 * self.scopes.len());
            }
        }
    }

    /// Returns the turn of a scope with usage; `None` where there are no scopes.
    pub(super) fn turn(&self, scope: Option<&Arc<str>>) -> Option<Turn> {
        scope.and_then(|scope| self.scopes.get(scope)).map(|of_scope| Arc::clone(&of_scope.turn))
    }

    #[cfg(test)]
    fn entries(&self) -> (usize, usize) {
        (self.scopes.len(), self.scopes.capacity())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [Resource; 3] = [Resource::Reading, Resource::InFlight, Resource::Bytes];

    fn quotas(max: usize, per_scope: usize) -> Quotas {
        let amounts = |n| Amounts { reading: n, in_flight: n, bytes: n };
        Quotas::new(amounts(max), amounts(per_scope))
    }

    #[test]
    fn one_scope_takes_its_share_and_all_together_what_there_is() {
        let [a, b, c]: [Arc<str>; 3] = ["a".into(), "b".into(), "c".into()];
        for resource in ALL {
            let mut quotas = quotas(5, 2);
            for scope in [&a, &a, &b, &b] {
                assert_eq!(quotas.has_room(Some(scope), resource), Ok(()));
                quotas.take(Some(scope), resource, 1);
            }
            assert_eq!(quotas.has_room(Some(&a), resource), Err(Full::Scope(resource, 2)));
            assert_eq!(quotas.has_room(Some(&c), resource), Ok(()));
            quotas.take(Some(&c), resource, 1);
            assert_eq!(quotas.has_room(Some(&c), resource), Err(Full::All(resource, 5)));
            quotas.give_back(Some(&a), resource, 1);
            assert_eq!(quotas.has_room(Some(&a), resource), Ok(()));
            // A request without a scope is limited by the limit of all only.
            quotas.take(None, resource, 1);
            assert_eq!(quotas.has_room(None, resource), Err(Full::All(resource, 5)));
        }
    }

    #[test]
    fn a_rush_of_scopes_leaves_nothing_behind() {
        let mut quotas = quotas(1 << 20, 4);
        let scopes: Vec<Arc<str>> = (0..100_000).map(|i| i.to_string().into()).collect();
        for scope in &scopes {
            quotas.take(Some(scope), Resource::Reading, 1);
            quotas.take(Some(scope), Resource::Bytes, 0);
        }
        for scope in &scopes {
            quotas.give_back(Some(scope), Resource::Reading, 1);
        }
        let (entries, capacity) = quotas.entries();
        assert_eq!((entries, quotas.used()), (0, Amounts::default()));
        assert!(capacity <= 1_024, "{capacity}");
    }

    proptest! {
        /// Checks, whatever is taken and given back, that the usage is the sum of the scopes'
        /// usages, and that the table has only scopes with usage.
        #[test]
        fn sums_agree(steps in proptest::collection::vec((0_usize..4, 0_usize..3, 0_usize..5, any::<bool>()), 0..200)) {
            let scopes: [Arc<str>; 4] = ["a".into(), "b".into(), "c".into(), "d".into()];
            let (mut quotas, mut model) = (quotas(20, 7), HashMap::<(usize, usize), usize>::new());
            for (scope, resource, amount, takes) in steps {
                let held = model.entry((scope, resource)).or_default();
                let (name, resource) = (Some(&scopes[scope]), ALL[resource]);
                if takes && quotas.has_room(name, resource).is_ok() {
                    quotas.take(name, resource, amount);
                    *held += amount;
                } else {
                    let amount = amount.min(*held);
                    quotas.give_back(name, resource, amount);
                    *held -= amount;
                }
            }
            for (i, resource) in ALL.into_iter().enumerate() {
                let sum: usize = (0..4).map(|scope| model.get(&(scope, i)).copied().unwrap_or(0)).sum();
                prop_assert_eq!(quotas.used().of(resource), sum);
            }
            let here = (0..4).filter(|scope| (0..3).any(|i| model.get(&(*scope, i)).is_some_and(|held| *held > 0))).count();
            prop_assert_eq!(quotas.entries().0, here);
        }
    }
}
