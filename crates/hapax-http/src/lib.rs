#![doc = include_str!("../README.md")]
//!
//! ```text
//! request ─► key (400) ─► scope ─► quota (429, 503) ─► body (413) ─► quota ─► fingerprint ─► claim
//!                                                                                       │
//!                                                                                     ┌─┘
//!                                                                                     ├─ done ─────────► kept response, replayed
//!                                                                                     ├─ in progress ──► 409, or wait
//!                                                                                     ├─ another one ──► 422
//!                                                                                     ├─ store down ───► 503
//!                                                                                     └─ claimed ─► handler, to its end
//!                                                                                                    └─► complete or release ─► response
//! ```
//!
//! [`IdempotencyLayer`] is the layer in the picture; [`KeyBuilder`] and [`OutgoingKeyLayer`] are
//! for the other direction. Header fields are by RFC 9110 and 9651.
//!
//! Files: `key`, `fingerprint` and `canonical`, `headers`, `record`, `problem`, `quota`, `ledger`
//! are pure; `permits` are given by the quotas, `reservations` by the ledger; `body` reads,
//! `durations` estimates, `problem_details` writes problems; `options` are checked, and `builder`
//! makes the `layer` of them; `service` claims, `run` handles, `answers` answers, all three over
//! what is `shared`.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod fingerprint;
mod key;
mod limits;
mod outgoing;
mod publisher;

mod body;

mod answers;
mod builder;
mod layer;
mod options;
mod response;
mod run;
mod service;
mod shared;
mod stats;

#[cfg(any(fuzzing, test))]
#[doc(hidden)]
pub mod fuzzing;

pub use body::Body;
pub use builder::{LayerBuilder, Scoped, Unscoped};
pub use http;
pub use key::{IdempotencyKey, MAX_KEY_CHARS, id_of};
pub use layer::IdempotencyLayer;
pub use options::{OnMissing, stores_status};
pub use outgoing::layer::{OutgoingKeyLayer, OutgoingKeyService, REPLAYED};
pub use outgoing::{IDEMPOTENCY_KEY, KeyBuilder, OutgoingKey};
pub use publisher::HttpPublisher;
pub use response::headers::keeps_header;
pub use response::problem::Problem;
pub use response::problem_details::ProblemDetails;
pub use service::IdempotencyService;
pub use stats::HttpStats;
