//! The limits of one scope, and of all together. Pure.
//!
//! Of requests whose bodies are coming, of requests in flight (keys that are claimed or waited for,
//! handlers), and of the bytes of bodies in memory.
//!
//! A quarter of all is the reserve: for scopes that have nothing. Of the rest a scope has at most
//! half of what is *left*: the dynamic threshold of Choudhury and Hahne (1998). So a scope alone
//! takes a quarter, several leave room for more, and however much others hold, a scope with nothing
//! is let in while the reserve lasts, of which nobody has more than one request.
//!
//! A scope that has its share is refused alone (429); when all is taken, everybody is (503). The
//! table of scopes has the scopes with current usage, and no others: no client can make it grow
//! without usage that is itself limited.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// A resource that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    Reading,
    InFlight,
    Bytes,
}

/// An amount of each resource: usage, or a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amounts {
    pub(crate) reading: usize,
    pub(crate) in_flight: usize,
    pub(crate) bytes: usize,
}

impl Amounts {
    pub(crate) fn of(&self, resource: Resource) -> usize {
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
pub(crate) enum Full {
    /// This scope has its share, which is this.
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
            Full::Scope(resource, max) => write!(f, "{max} {}, as many as one scope may have now", what(resource)),
            Full::All(resource, max) => write!(f, "{max} {}, as many as may be", what(resource)),
            Full::Closing => f.write_str("the server ends"),
        }
    }
}

/// The part of all that is the reserve.
const RESERVE: usize = 4;

/// The part of what is left beside the reserve that one scope may have.
const PART: usize = 2;

/// The limits of each resource.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) max: Amounts,
    /// The share of a scope when only the reserve is left: one request.
    pub(crate) least_per_scope: Amounts,
}

impl Limits {
    /// Returns the share of one scope while this much is used by all.
    fn share(&self, resource: Resource, used: usize) -> usize {
        let max = self.max.of(resource);
        let left = (max - max / RESERVE).saturating_sub(used);
        left.div_ceil(PART).max(self.least_per_scope.of(resource))
    }
}

/// Limits, and the usage.
#[derive(Debug)]
pub(crate) struct Quotas {
    limits: Limits,
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
pub(crate) type Turn = Arc<tokio::sync::Mutex<()>>;

impl Quotas {
    pub(crate) fn new(limits: Limits) -> Self {
        Quotas { limits, used: Amounts::default(), scopes: HashMap::new() }
    }

    pub(crate) fn used(&self) -> Amounts {
        self.used
    }

    /// Returns true if no request is read or in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.used.reading == 0 && self.used.in_flight == 0
    }

    /// Returns an error if a resource is exhausted: for this scope, or (with or without a scope)
    /// for all.
    pub(crate) fn has_room(&self, scope: Option<&Arc<str>>, resource: Resource) -> Result<(), Full> {
        let (used, max) = (self.used.of(resource), self.limits.max.of(resource));
        if used >= max {
            return Err(Full::All(resource, max));
        }
        let Some(scope) = scope else { return Ok(()) };
        let of_scope = self.scopes.get(scope).map_or(0, |scope| scope.used.of(resource));
        let share = self.limits.share(resource, used);
        if of_scope < share { Ok(()) } else { Err(Full::Scope(resource, share)) }
    }

    /// Takes an amount, even if there is no room.
    pub(crate) fn take(&mut self, scope: Option<&Arc<str>>, resource: Resource, amount: usize) {
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
    pub(crate) fn give_back(&mut self, scope: Option<&Arc<str>>, resource: Resource, amount: usize) {
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
    pub(crate) fn turn(&self, scope: Option<&Arc<str>>) -> Option<Turn> {
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

    fn quotas(max: usize) -> Quotas {
        let amounts = |n| Amounts { reading: n, in_flight: n, bytes: n };
        Quotas::new(Limits { max: amounts(max), least_per_scope: amounts(1) })
    }

    fn names(count: usize) -> Vec<Arc<str>> {
        (0..count).map(|i| i.to_string().into()).collect()
    }

    #[test]
    fn one_scope_takes_its_share_and_all_together_what_there_is() {
        let names = names(6);
        for resource in ALL {
            let mut quotas = quotas(8);
            for scope in [&names[0], &names[0], &names[1], &names[1], &names[2], &names[3]] {
                assert_eq!(quotas.has_room(Some(scope), resource), Ok(()));
                quotas.take(Some(scope), resource, 1);
            }
            assert_eq!(quotas.has_room(Some(&names[0]), resource), Err(Full::Scope(resource, 1)));
            // Of the reserve nobody gets a second one.
            assert_eq!(quotas.has_room(Some(&names[3]), resource), Err(Full::Scope(resource, 1)));
            for scope in &names[4..] {
                assert_eq!(quotas.has_room(Some(scope), resource), Ok(()));
                quotas.take(Some(scope), resource, 1);
            }
            assert_eq!(quotas.has_room(Some(&names[0]), resource), Err(Full::All(resource, 8)));
            quotas.give_back(Some(&names[0]), resource, 1);
            assert_eq!(quotas.has_room(Some(&"new".into()), resource), Ok(()));
            // A request without a scope is limited by the limit of all only.
            quotas.take(None, resource, 1);
            assert_eq!(quotas.has_room(None, resource), Err(Full::All(resource, 8)));
        }
    }

    /// Checks what SECURITY.md says of scopes that take all they can and keep it, each before the
    /// next one comes, which is the worst order.
    #[test]
    fn scopes_that_take_all_they_can_leave_a_third_less_each_and_never_the_reserve() {
        let (mut quotas, names) = (quotas(4_096), names(2_000));
        let take_all = |quotas: &mut Quotas, scope| {
            let before = quotas.used().reading;
            while quotas.has_room(Some(scope), Resource::Reading).is_ok() {
                quotas.take(Some(scope), Resource::Reading, 1);
            }
            quotas.used().reading - before
        };
        let mut left = vec![3_072_usize];
        for scope in &names[..20] {
            let before = *left.last().unwrap();
            let took = take_all(&mut quotas, scope);
            assert!(took.abs_diff(before / 3) <= 1, "{took} of {left:?}");
            left.push(before.saturating_sub(took));
        }
        println!("left beside the reserve: {left:?}");
        assert!(left[1] >= 2_047 && left[4] >= 600 && left[8] >= 100 && left[20] == 0, "{left:?}");
        // From then on each of the others has one, and they are some 1,024.
        let reserve = 4_096 - quotas.used().reading;
        assert!((1_014..=1_024).contains(&reserve), "{reserve} are left");
        for (n, scope) in names[20..].iter().enumerate() {
            assert_eq!(take_all(&mut quotas, scope), usize::from(n < reserve), "scope {n} of the others");
        }
    }

    #[test]
    fn one_request_is_a_share_of_the_reserve_however_small_all_is() {
        let all = Amounts { reading: 1, in_flight: 1, bytes: 1_000 };
        let mut quotas = Quotas::new(Limits { max: all, least_per_scope: all });
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        quotas.take(Some(&a), Resource::Bytes, 999);
        assert_eq!(quotas.has_room(Some(&a), Resource::Bytes), Ok(()));
        for resource in [Resource::Reading, Resource::InFlight] {
            assert_eq!(quotas.has_room(Some(&b), resource), Ok(()));
        }
    }

    #[test]
    fn a_rush_of_scopes_leaves_nothing_behind() {
        let mut quotas = quotas(1 << 20);
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
            let scopes = names(4);
            let (mut quotas, mut model) = (quotas(20), HashMap::<(usize, usize), usize>::new());
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
