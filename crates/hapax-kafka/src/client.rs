//! The holds on the client of a group: the last one to go leaves the group, in bounded time.

use rdkafka::consumer::{BaseConsumer, ConsumerContext};
use std::ops::Deref;
use std::sync::{Arc, Weak, mpsc};
use std::time::Duration;

/// The time that leaving may take beyond the session, in which the client tries to reach its
/// coordinator.
const GRACE: Duration = Duration::from_secs(5);

/// A hold on the client. Its end commits stored offsets and leaves the group. The client waits for
/// brokers that do not answer without a limit of its own: here nobody waits longer than a session
/// and five seconds; a thread goes on with it.
///
/// (A queue of a partition holds the client, too. Whoever has one has this beside it, to be dropped
/// after the queue.)
pub(crate) struct Client<C: ConsumerContext + 'static> {
    /// `None` while it is dropped.
    client: Option<Arc<BaseConsumer<C>>>,
    leave_within: Duration,
}

/// A hold of the client's own context, which keeps nothing alive.
pub(crate) struct WeakClient<C: ConsumerContext + 'static> {
    client: Weak<BaseConsumer<C>>,
    leave_within: Duration,
}

impl<C: ConsumerContext> Client<C> {
    pub(crate) fn new(client: BaseConsumer<C>, session: Duration) -> Self {
        Client { client: Some(Arc::new(client)), leave_within: session + GRACE }
    }

    pub(crate) fn downgrade(&self) -> WeakClient<C> {
        WeakClient { client: Arc::downgrade(self), leave_within: self.leave_within }
    }
}

impl<C: ConsumerContext> WeakClient<C> {
    pub(crate) fn upgrade(&self) -> Option<Client<C>> {
        self.client.upgrade().map(|client| Client { client: Some(client), leave_within: self.leave_within })
    }
}

impl<C: ConsumerContext> Clone for Client<C> {
    fn clone(&self) -> Self {
        Client { client: self.client.clone(), leave_within: self.leave_within }
    }
}

impl<C: ConsumerContext> Deref for Client<C> {
    type Target = Arc<BaseConsumer<C>>;

    fn deref(&self) -> &Self::Target {
        self.client.as_ref().expect("it is taken by the drop alone")
    }
}

impl<C: ConsumerContext> Drop for Client<C> {
    fn drop(&mut self) {
        let Some(client) = self.client.take().and_then(Arc::into_inner) else { return };
        let (leaves, left) = mpsc::channel::<()>();
        let leave = move || {
            drop(client);
            drop(leaves);
        };
        // (Without a thread the closure, and the client in it, is dropped here.)
        let _ = std::thread::Builder::new().name("hapax-kafka-leaves".into()).spawn(leave);
        if left.recv_timeout(self.leave_within) == Err(mpsc::RecvTimeoutError::Timeout) {
            #[cfg(feature = "tracing")]
            tracing::warn!(
                within = ?self.leave_within,
                "a member of a group of Kafka has not left in time: what was not committed comes again",
            );
        }
    }
}
