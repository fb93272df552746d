//! Requests for records, as commands and as calls to scripts.

use super::RedisStore;
use super::batch::Calls;
use crate::resp::answers::{self, Found, unexpected};
use crate::resp::commands::Commands;
use crate::resp::errors::BACKEND;
use crate::resp::reply::Reply;
use crate::resp::value::{self, Value};
use hapax_store::backend::times::{Sound, Timed};
use hapax_store::*;
use std::ops::Range;
use std::time::Duration;

/// The approximate size of a command without the key and the value.
const WORDS: usize = 80;

impl Store for RedisStore {
    fn backend(&self) -> &'static str {
        BACKEND
    }

    fn limits(&self) -> Limits {
        Limits::batches_of(1_024).under_way(4)
    }

    /// Returns, in a cluster, the number of the master that owns the key's slot as far as is known.
    /// Otherwise 0.
    fn node_of(&self, key: &RecordKey) -> u32 {
        if !self.servers.in_cluster() {
            return 0;
        }
        self.servers.number_of(self.keys.slot_of(key))
    }

    async fn mark(&self, marks: &[Mark]) -> Answers<Marked> {
        let set = |mark: &Mark, commands: &mut Commands| {
            commands.written(b"*6\r\n$3\r\nSET\r\n");
            let name = self.keys.write(&mark.key, commands);
            commands.number(value::attempt_bits(mark.attempt));
            commands.written(b"$2\r\nNX\r\n$2\r\nPX\r\n");
            commands.number(value::expiry_ms(mark.retention));
            name
        };
        let is_set = |answer: Reply<'_>| match answer {
            Reply::Word(b"OK") => Ok(true),
            Reply::Nil => Ok(false),
            other => Err(unexpected("SET", other)),
        };
        let are_set = self.each(marks, set, is_set).await?;
        // Existing values are looked at, in whole but for results: there are fewer of them, and
        // `SET … NX GET` would cost each one a fifth more, and not return the remaining time. A
        // claim whose lease is over gives way to the mark.
        let known: Vec<&Mark> = marks
            .iter()
            .zip(&are_set)
            .filter(|(_, is_set)| matches!(is_set, Ok(false)))
            .map(|(mark, _)| mark)
            .collect();
        let calls = Calls {
            key: |mark: &&Mark, commands: &mut Commands| self.keys.write(&mark.key, commands),
            first: (0, |_: &mut Commands| {}),
            each: (2, |mark: &&Mark, commands: &mut Commands| {
                commands.number(value::attempt_bits(mark.attempt));
                commands.number(value::expiry_ms(mark.retention));
            }),
        };
        let marked = |mark: &&Mark, reply: Reply<'_>| answers::marked(mark, answers::value_and_ttl(reply)?);
        let mut looks = self.servers.scripted(&self.scripts.mark, &known, calls, marked).await?.into_iter();
        let marked = are_set.into_iter().map(|is_set| {
            if is_set? {
                Ok(Marked::Fresh)
            } else {
                looks.next().unwrap_or_else(|| Err(unexpected("a look", Reply::Nil)))
            }
        });
        Ok(marked.collect())
    }

    async fn unmark(&self, marks: &[Unmark]) -> Answers<Unmarked> {
        let calls = Calls {
            key: |mark: &Unmark, commands: &mut Commands| self.keys.write(&mark.key, commands),
            first: (0, |_: &mut Commands| {}),
            each: (1, |mark: &Unmark, commands: &mut Commands| {
                commands.number(value::attempt_bits(mark.attempt));
            }),
        };
        let answer = |_: &Unmark, answer: Reply<'_>| match answer {
            Reply::Int(1) => Ok(Unmarked::Done),
            Reply::Int(0) => Ok(Unmarked::NotThere),
            other => Err(unexpected("taking a mark back", other)),
        };
        self.servers.scripted(&self.scripts.unmark, marks, calls, answer).await
    }

    async fn claim(&self, claims: &[ClaimRequest]) -> Answers<Claimed> {
        let calls = Calls {
            key: |claim: &ClaimRequest, commands: &mut Commands| self.keys.write(&claim.key, commands),
            first: (0, |_: &mut Commands| {}),
            each: (5, |claim: &ClaimRequest, commands: &mut Commands| {
                commands.word(&claim.attempt.to_be_bytes());
                commands.word(claim.fingerprint.as_ref().map_or(&[][..], |fingerprint| &fingerprint.0));
                commands.number(value::expiry_ms(claim.lease));
                commands.text(&value::doubt_text(claim.doubt, claim.held_by.as_ref()));
                commands.text(claim.held_by.as_ref().map_or("", HeldBy::as_str));
            }),
        };
        let asked = Sound::of(claims);
        let answers = self.servers.scripted(&self.scripts.claim, asked.requests(), calls, answers::claimed).await;
        asked.answers(answers)
    }

    async fn complete(&self, completions: &[Completion]) -> Answers<Held> {
        fn rest(completion: &Completion) -> (u64, Tail<'_>) {
            (value::expiry_ms(completion.retention), Some(completion.result.as_deref()))
        }
        self.hold("complete", completions, |completion| &completion.hold, rest).await
    }

    async fn release(&self, holds: &[Hold]) -> Answers<Held> {
        self.hold("release", holds, |hold| hold, |_| (0, None)).await
    }

    async fn fail(&self, failures: &[ClaimFailure]) -> Answers<Held> {
        let retry_after_ms = |failure: &ClaimFailure| match failure.retry_after {
            Duration::ZERO => 0, // the script releases it
            retry_after => value::expiry_ms(retry_after),
        };
        self.hold("fail", failures, |failure| &failure.hold, |failure| (retry_after_ms(failure), None)).await
    }

    async fn renew(&self, renewals: &[Renewal]) -> Answers<Held> {
        let lease_ms = |renewal: &Renewal| value::expiry_ms(renewal.lease);
        self.hold("renew", renewals, |renewal| &renewal.hold, |renewal| (lease_ms(renewal), None)).await
    }

    async fn look_up(&self, keys: &[RecordKey]) -> Answers<Known> {
        let key = |key: &RecordKey, commands: &mut Commands| self.keys.write(key, commands);
        let known = |_: &RecordKey, found: Found<'_>| match found {
            None => Ok(Known::Unknown),
            Some((value, left)) => Ok(Value::decode(value)?.known(left)),
        };
        self.look(keys, -1, key, known).await
    }

    async fn record(&self, records: &[Record]) -> Answers<()> {
        let set = |record: &Record, commands: &mut Commands| {
            commands.written(b"*5\r\n$3\r\nSET\r\n");
            let name = self.keys.write(&record.key, commands);
            commands.word(&value::recorded(record.fingerprint, record.result.as_deref()));
            commands.written(b"$2\r\nPX\r\n");
            commands.number(value::expiry_ms(record.retention));
            name
        };
        let answer = |reply: Reply<'_>| match reply {
            Reply::Word(b"OK") => Ok(()),
            other => Err(unexpected("SET", other)),
        };
        self.each(records, set, answer).await
    }

    async fn forget(&self, keys: &[RecordKey]) -> Answers<bool> {
        let unlink = |key: &RecordKey, commands: &mut Commands| {
            commands.written(b"*2\r\n$6\r\nUNLINK\r\n");
            self.keys.write(key, commands)
        };
        let answer = |reply: Reply<'_>| match reply {
            Reply::Int(count) => Ok(count > 0),
            other => Err(unexpected("UNLINK", other)),
        };
        self.each(keys, unlink, answer).await
    }

    /// Checks the servers, so that losses are noticed; see [`RedisStore::emptied`]. They remove
    /// expired records by themselves.
    async fn expire(&self, _limit: usize) -> Result<Expired, StoreError> {
        self.servers.check().await;
        Ok(Expired::default())
    }

    async fn scan(&self, from: Option<&Cursor>, limit: usize) -> Result<Page, StoreError> {
        self.page(from, limit).await.map(Page::of)
    }
}

impl Inspect for RedisStore {
    async fn inspect(&self, keys: &[RecordKey]) -> Answers<Option<Inspected>> {
        let key = |key: &RecordKey, commands: &mut Commands| self.keys.write(key, commands);
        let inspected = |_: &RecordKey, found: Found<'_>| match found {
            None => Ok(None),
            Some((value, left)) => value::inspected(value, left).map(Some),
        };
        self.look(keys, -1, key, inspected).await
    }

    /// As the server's `SCAN`, it may return a record twice while it makes room for more.
    async fn list(&self, from: Option<&Cursor>, limit: usize) -> Result<Listing, StoreError> {
        self.page(from, limit).await
    }
}

impl RedisStore {
    /// Reads the stored value, up to a byte (-1: all of it), and its remaining time.
    pub(super) async fn look<R: Sync, A: Send>(
        &self,
        requests: &[R],
        last_byte: i64,
        key: impl Fn(&R, &mut Commands) -> Range<usize> + Send + Sync,
        answer: impl Fn(&R, Found<'_>) -> Result<A, StoreError> + Send + Sync,
    ) -> Answers<A> {
        let calls = Calls {
            key,
            first: (1, |commands: &mut Commands| commands.signed(last_byte)),
            each: (0, |_: &R, _: &mut Commands| {}),
        };
        let answer = |request: &R, reply: Reply<'_>| answer(request, answers::value_and_ttl(reply)?);
        self.servers.scripted(&self.scripts.look, requests, calls, answer).await
    }

    /// Ends or extends claims: token, milliseconds and the last part of the value of each.
    async fn hold<R: Timed + Sync>(
        &self,
        what: &'static str,
        requests: &[R],
        hold: impl Fn(&R) -> &Hold + Send + Sync,
        rest: impl Fn(&R) -> (u64, Tail<'_>) + Send + Sync,
    ) -> Answers<Held> {
        let calls = Calls {
            key: |request: &R, commands: &mut Commands| self.keys.write(&hold(request).key, commands),
            first: (1, |commands: &mut Commands| commands.text(what)),
            each: (3, |request: &R, commands: &mut Commands| {
                let (expiry_ms, tail) = rest(request);
                commands.text(&value::token_text(hold(request).token));
                commands.number(expiry_ms);
                match tail {
                    None => commands.word(b""),
                    Some(None) => commands.word(value::NO_RESULT),
                    Some(Some(result)) => drop(commands.parts([value::RESULT, result])),
                }
            }),
        };
        let answer = |_: &R, reply: Reply<'_>| match reply {
            Reply::Int(1) => Ok(Held::Done),
            Reply::Int(0) => Ok(Held::Lost),
            other => Err(unexpected("a claim's end", other)),
        };
        let asked = Sound::of(requests);
        let answers = self.servers.scripted(&self.scripts.hold, asked.requests(), calls, answer).await;
        asked.answers(answers)
    }

    /// Sends one command for each request. `write` writes it, and returns the position of its key.
    async fn each<R: Timed + Sync, A: Send>(
        &self,
        requests: &[R],
        write: impl Fn(&R, &mut Commands) -> Range<usize> + Send,
        answer: impl Fn(Reply<'_>) -> Result<A, StoreError> + Send + Sync,
    ) -> Answers<A> {
        let asked = Sound::of(requests);
        let requests = asked.requests();
        if requests.is_empty() {
            return asked.answers(Ok(vec![]));
        }
        let mut commands = Commands::with_capacity(requests.len(), requests.len() * 2 * WORDS);
        for request in requests {
            let key = write(request, &mut commands);
            let slot = self.servers.slot(commands.part(key));
            commands.end(slot);
        }
        let answers = self.servers.ask(commands, None, |_, reply| answer(reply)).await;
        asked.answers(answers)
    }
}

/// The last part of a completion's value, of a claim that is completed: its result, if it has one.
type Tail<'r> = Option<Option<&'r [u8]>>;
