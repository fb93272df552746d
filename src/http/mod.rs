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
//! [`IdempotencyLayer`] is that; [`KeyBuilder`] and [`OutgoingKeyLayer`] are for the other
//! direction. Behaviour: the IETF draft `draft-ietf-httpapi-idempotency-key-header`, problems by
//! RFC 9457, header fields by RFC 9110 and 9651.
//!
//! Files: `key`, `fingerprint` and `canonical`, `headers`, `record`, `problem`, `quota` are pure;
//! `room` gives permits by the quotas, `body` reads; `layer` and `options` are configured,
//! `service` claims, `run` handles.

mod canonical;
pub mod fingerprint;
mod headers;
mod key;
mod outgoing;
mod problem;
mod quota;
mod record;

mod body;

mod layer;
mod options;
mod outgoing_layer;
mod room;
mod run;
mod service;
mod stats;

#[cfg(any(fuzzing, all(test, not(modelled))))]
pub(crate) mod fuzzing;

pub use body::Body;
pub use headers::keeps_header;
pub use key::{IdempotencyKey, MAX_KEY_CHARS};
pub use layer::{IdempotencyLayer, LayerBuilder, OnMissing, Scoped, Unscoped};
pub use options::stores_status;
pub use outgoing::{IDEMPOTENCY_KEY, KeyBuilder, OutgoingKey};
pub use outgoing_layer::{OutgoingKeyLayer, OutgoingKeyService, REPLAYED};
pub use problem::Problem;
pub use service::IdempotencyService;
pub use stats::HttpStats;
