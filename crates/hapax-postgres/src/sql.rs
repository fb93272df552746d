//! Inbox and outbox by SQL: for transactions of diesel, diesel-async, SeaORM and sqlx 0.8, and of
//! other languages.
//!
//! [`Tables::migrate`](crate::Tables::migrate) makes functions, which [`inbox`](crate::inbox) and
//! [`outbox`](crate::outbox) call, and so may anybody else. With `Tables::new("public", "shop")`:
//!
//! ```sql
//! BEGIN;
//! SELECT public.shop_once('billing', convert_to('m-17', 'UTF8')); -- null: it is the first
//! UPDATE orders SET paid = true WHERE id = 17;
//! SELECT public.shop_outbox_store_one('shipping', convert_to('m-17/shipped', 'UTF8'),
//!     convert_to('order-17', 'UTF8'), convert_to('17', 'UTF8'), NULL, NULL, NULL, NULL, NULL, NULL);
//! COMMIT; -- mark, effect and message at once, or none of them; now acknowledge
//! ```
//!
//! In diesel, for example (and `diesel_async` in the same way):
//!
//! ```text
//! #[derive(QueryableByName)]
//! struct Marked {
//!     #[diesel(sql_type = Nullable<BigInt>)]
//!     first_at: Option<i64>,
//! }
//!
//! connection.transaction(|connection| {
//!     let marked: Marked = sql_query("SELECT public.shop_once($1, $2) AS first_at")
//!         .bind::<Text, _>("billing")
//!         .bind::<Binary, _>(StoredId::new(b"m-17").as_bytes())
//!         .get_result(connection)?;
//!     if marked.first_at.is_none() {
//!         diesel::update(orders.find(17)).set(paid.eq(true)).execute(connection)?;
//!     }
//!     Ok(())
//! })
//! ```
//!
//! # Functions
//!
//! Each name has the schema and the prefix of the tables before it, as `public.shop_once`.
//!
//! | function | arguments | answer |
//! |---|---|---|
//! | `once` | `consumer text, mark bytea` | null if it is the first; else the time of that |
//! | `once_kept` | `consumer text, mark bytea, content bytea, keep float8` | as `once` |
//! | `once_batch` | `consumer text, marks bytea[]` | rows `marked_id, marked_at, is_first` |
//! | `mark` | `consumer text, mark bytea, id bytea, kind text, source text, subject text, processor text` | as `once` |
//! | `mark_kept` | `consumer text, mark bytea, id bytea, kind text, source text, subject text, processor text, keep float8` | as `once` |
//! | `forget` | `consumer text, marks bytea[]` | how many had one |
//! | `inbox_receive` | `consumer text, mark bytea, id bytea, key bytea, payload bytea, headers text, due float8, expires float8, kind text, source text, subject text` | as `once` |
//! | `inbox_compare` | `consumer text, mark bytea, id bytea, key bytea, payload bytea, headers text, due float8, expires float8, kind text, source text, subject text, content bytea, how text` | a row `first_at, is_other` |
//! | `outbox_store_one` | `topic text, id bytea, key bytea, payload bytea, headers text, due float8, expires float8, kind text, source text, subject text` | its position |
//! | `outbox_store` | `topic text, ids bytea[], keys bytea[], payloads bytea[], headers text[], due float8[], expires float8[], kinds text[], sources text[], subjects text[]` | how many |
//! | `capture` | `topic text, ids bytea[], keys bytea[], payloads bytea[], headers text[], kinds text[], sources text[], subjects text[]` | how many |
//! | `capture_expire` | `age float8, limit bigint` | how many are gone |
//! | `rotate` | `partition bigint, keep bigint` | a step of [`Retention::expire`](crate::Retention::expire): call again until it is `nothing` or `put off` |
//! | `inbox_figures`, `outbox_figures` | `name text, limit bigint` | a row `waiting, runs_due, dead, due_for, oldest` |
//! | `inbox_dead_letters`, `outbox_dead_letters` | `name text, behind bigint, limit bigint` | rows, with `position, token, name, id, error` among others |
//! | `inbox_requeue`, `outbox_requeue` | `positions bigint[], tokens bigint[], name text, age float8, limit bigint` | how many |
//! | `inbox_discard`, `outbox_discard` | `positions bigint[], tokens bigint[], name text, age float8, limit bigint` | how many |
//!
//! - A *mark* is the id, as it is up to 47 bytes; of a longer one it is the SHA-384, which is
//!   `sha384(id)` in SQL, and [`StoredId`](hapax_store::StoredId) here. `inbox_receive` and `mark`
//!   take both.
//! - Times in an answer are microseconds since 1970, those in arguments seconds since 1970, an
//!   `age`, a `partition` and `keep` microseconds.
//! - A *content* is compared: the first 16 bytes of a SHA-256, as
//!   [`Fingerprint`](hapax_store::Fingerprint) has them. *How* a message of another one's id is
//!   treated is `dead_letter`, `handle` or `drop`.
//! - *Headers* are the text of an array, of names and values in turn: `{"trace","0af7"}`.
//! - All but consumers, topics, marks, ids and payloads may be null: there is none. A null `name`
//!   means all of them.
//!
//! # Guarantees
//!
//! Those of the functions of [`inbox`](crate::inbox) and [`outbox`](crate::outbox) that call them:
//! it is they who decide. A function keeps its name, its arguments and what they mean as long as
//! the tables are of one version; in another version it has another name.
//!
//! Limits are checked by the callers in Rust alone. Names of consumers and topics are those of a
//! [`Scope`](hapax_store::Scope), and not empty; ids, keys, payloads, headers and descriptions have
//! at most [`ID_BYTES_MAX`](crate::ID_BYTES_MAX), [`PAYLOAD_BYTES_MAX`](crate::PAYLOAD_BYTES_MAX),
//! [`HEADER_BYTES_MAX`](crate::HEADER_BYTES_MAX) and
//! [`DESCRIPTION_BYTES_MAX`](crate::DESCRIPTION_BYTES_MAX) bytes. A worker or a relay gives up a
//! message that breaks them, and nothing else.
//!
//! # Errors
//!
//! PostgreSQL's own. The transaction has failed then: roll it back, and do not acknowledge. States
//! `40001` and `40P01` are tried again as a whole.
