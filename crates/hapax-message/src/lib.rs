#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod answers;
mod attributes;
pub mod cloudevents;
mod described;
mod give_up;
pub mod ids;
#[doc(hidden)]
pub mod kinds;
mod later;
mod message;
mod on_mismatch;
mod publisher;
pub mod routes;
mod trace;
mod trace_state;

pub use answers::Answers;
pub use described::{Described, MESSAGE_ID};
pub use give_up::{GiveUp, causes};
pub use later::Later;
pub use message::Message;
pub use on_mismatch::OnMismatch;
pub use publisher::Publisher;
pub use trace::{TraceContext, TraceError};

/// The error that a handler or a publisher returns. Its text is kept. [`GiveUp`] says that another
/// attempt cannot help, [`Later`] that this was none.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
