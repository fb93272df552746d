//! Effects of handlers, and whether they are allowed.

use super::Store as TestStore;
use super::broker::Message;
use hapax_store::{Known, RecordKey, Scope, Store};
use hapax_stream::Delivery;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Effects of handlers, by id. One clone for each handler.
#[derive(Clone)]
pub struct Effects {
    store: TestStore,
    counted: Arc<Mutex<HashMap<String, Effect>>>,
    running: Arc<Mutex<(usize, usize)>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Effect {
    done: u32,
    is_running: bool,
    token: u64,
}

pub type Handling = std::pin::Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// A handler that runs. When it is dropped, it does not run any more.
struct Running<'e>(&'e Effects, String);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.counted.lock().unwrap().get_mut(&self.1).unwrap().is_running = false;
        self.0.running.lock().unwrap().0 -= 1;
    }
}

impl Effects {
    pub fn new(store: &TestStore) -> Self {
        Effects { store: Arc::clone(store), counted: Arc::default(), running: Arc::default() }
    }

    /// Handles a message, which takes this long. No other handler may work on it, it may not be
    /// done, and its token must be the largest so far.
    pub async fn handle(&self, message: &Delivery<Message>, takes: Duration) {
        let id = message.id.clone().expect("an id");
        let key = RecordKey::new(&Scope::new("orders").unwrap(), &id);
        let known = self.store.inner().look_up(&[key]).await.unwrap().remove(0).unwrap();
        assert!(!matches!(known, Known::Completed(_)), "{id} is handled, and done");
        let running = {
            let mut counted = self.counted.lock().unwrap();
            let effect = counted.entry(id.clone()).or_default();
            assert!(!effect.is_running, "{id} is handled twice at a time");
            let token = message.token().as_u64();
            assert!(token == 0 || token > effect.token, "{id} has token {token}, not more than {}", effect.token);
            *effect = Effect { is_running: true, token, ..*effect };
            let mut running = self.running.lock().unwrap();
            running.0 += 1;
            running.1 = running.1.max(running.0);
            Running(self, id.clone())
        };
        tokio::time::sleep(takes).await;
        self.counted.lock().unwrap().get_mut(&id).unwrap().done += 1;
        drop(running);
    }

    /// Returns how often handlers for this id have come to their end.
    pub fn of(&self, id: &str) -> u32 {
        self.counted.lock().unwrap().get(id).map_or(0, |effect| effect.done)
    }

    pub fn total(&self) -> u32 {
        self.counted.lock().unwrap().values().map(|effect| effect.done).sum()
    }

    pub fn most_running(&self) -> usize {
        self.running.lock().unwrap().1
    }

    /// Returns the handler that does just that.
    pub fn handler(
        &self,
        takes: impl Fn(&Message) -> Duration + Send + Sync + 'static,
    ) -> impl Fn(Delivery<Message>) -> Handling + Send + Sync + 'static {
        let (effects, takes) = (self.clone(), Arc::new(takes));
        move |message| {
            let (effects, takes) = (effects.clone(), Arc::clone(&takes));
            Box::pin(async move {
                effects.handle(&message, takes(&message)).await;
                Ok(())
            })
        }
    }
}
