//! Calls to a script for many keys.

use crate::cluster::servers::Servers;
use crate::resp::answers::unexpected;
use crate::resp::commands::Commands;
use crate::resp::errors::refused;
use crate::resp::reply::Reply;
use crate::resp::scripts::Script;
use hapax_store::{Answers, StoreError};
use std::ops::Range;
use std::sync::Arc;

/// The number of keys in a call to a script, where they may lie in different slots: the server does
/// nothing else meanwhile, for some 100 µs.
const KEYS_IN_A_CALL: usize = 64;

/// The arguments of a script's calls: keys, what comes after them, and then a fixed number of
/// arguments for each key.
pub(super) struct Calls<K, F, E> {
    pub(super) key: K,
    pub(super) first: (usize, F),
    pub(super) each: (usize, E),
}

impl<K, F, E> Calls<K, F, E> {
    /// Writes one call.
    fn write<R>(&self, script: &Script, requests: &[R], slot: impl Fn(&[u8]) -> u16, commands: &mut Commands)
    where
        K: Fn(&R, &mut Commands) -> Range<usize>,
        F: Fn(&mut Commands),
        E: Fn(&R, &mut Commands),
    {
        script.call(requests.len(), self.first.0 + self.each.0 * requests.len(), commands);
        let mut first_key = None;
        for request in requests {
            let key = (self.key)(request, commands);
            first_key.get_or_insert(key);
        }
        (self.first.1)(commands);
        requests.iter().for_each(|request| (self.each.1)(request, commands));
        let slot = first_key.map_or(0, |key| slot(commands.part(key)));
        commands.end(slot);
    }
}

impl Servers {
    /// Calls one script for all requests, in as few calls as possible.
    pub(super) async fn scripted<R: Sync, A: Send, K, F, E>(
        self: &Arc<Self>,
        script: &Script,
        requests: &[R],
        calls: Calls<K, F, E>,
        answer: impl Fn(&R, Reply<'_>) -> Result<A, StoreError> + Send + Sync,
    ) -> Answers<A>
    where
        K: Fn(&R, &mut Commands) -> Range<usize>,
        F: Fn(&mut Commands),
        E: Fn(&R, &mut Commands),
    {
        let keys_in_a_call = if self.in_cluster() { 1 } else { KEYS_IN_A_CALL };
        let chunks = || requests.chunks(keys_in_a_call);
        let mut commands = Commands::with_capacity(chunks().len(), requests.len() * 160);
        chunks().for_each(|requests| calls.write(script, requests, |key| self.slot(key), &mut commands));
        drop(calls);
        if requests.is_empty() {
            return Ok(vec![]);
        }
        let read = |call: usize, reply: Reply<'_>| {
            let requests = &requests[call * keys_in_a_call..];
            let requests = &requests[..requests.len().min(keys_in_a_call)];
            let one = |(request, reply)| match reply {
                Reply::Refusal(refusal) => Err(refused(refusal)),
                reply => answer(request, reply),
            };
            match reply {
                Reply::Array(replies) if replies.len() == requests.len() => {
                    Ok(requests.iter().zip(replies).map(one).collect::<Vec<_>>())
                }
                other => Err(unexpected("a script", other)),
            }
        };
        let answers = self.ask(commands, Some(script), read).await?;
        let mut each = Vec::with_capacity(requests.len());
        for (requests, answers) in chunks().zip(answers) {
            match answers {
                Ok(answers) => each.extend(answers),
                Err(failure) => each.extend(requests.iter().map(|_| Err(failure.clone()))),
            }
        }
        Ok(each)
    }

    /// Returns the slot of a key, where that matters.
    pub(super) fn slot(&self, key: &[u8]) -> u16 {
        if self.in_cluster() { crate::cluster::keys::slot(key) } else { 0 }
    }
}
