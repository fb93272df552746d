//! Idempotency keys over HTTP: requests that are handled once, however often they come, and keys
//! for the requests that this process makes.
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
//! for the other direction. Behaviour: the IETF draft `draft-ietf-httpapi-idempotency-key-header`,
//! problems by RFC 9457, header fields by RFC 9110 and 9651.
//!
//! Files: `key`, `fingerprint` and `canonical`, `headers`, `record`, `problem`, `quota`, `ledger`
//! are pure; `permits` are given by the quotas, `reservations` by the ledger; `body` reads,
//! `durations` estimates, `problem_details` writes problems; `options` are checked, and `builder`
//! makes the `layer` of them; `service` claims, `run` handles, `answers` answers, all three over
//! what is `shared`.

mod canonical;
pub mod fingerprint;
mod headers;
mod key;
mod ledger;
mod outgoing;
mod problem;
mod quota;
mod record;

mod body;

mod answers;
mod builder;
mod durations;
mod layer;
mod options;
mod outgoing_layer;
mod permits;
mod problem_details;
mod reservations;
mod run;
mod service;
mod shared;
mod stats;

#[cfg(any(fuzzing, test))]
#[doc(hidden)]
pub mod fuzzing;

pub use body::Body;
pub use builder::{LayerBuilder, Scoped, Unscoped};
pub use headers::keeps_header;
pub use key::{IdempotencyKey, MAX_KEY_CHARS, id_of};
pub use layer::IdempotencyLayer;
pub use options::{OnMissing, stores_status};
pub use outgoing::{IDEMPOTENCY_KEY, KeyBuilder, OutgoingKey};
pub use outgoing_layer::{OutgoingKeyLayer, OutgoingKeyService, REPLAYED};
pub use problem::Problem;
pub use problem_details::ProblemDetails;
pub use service::IdempotencyService;
pub use stats::HttpStats;
