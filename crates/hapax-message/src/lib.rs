//! Messages of brokers that say what they are: id, kind, subject, key and trace.
//!
//! A message of any broker is [`Described`]: its crate gives the payload and the headers, and the
//! rest follows from [CloudEvents](cloudevents) and the standards in [`ids`]. This crate knows no
//! broker and no runtime.
//!
//! ```
//! use hapax_message::{Described, TraceContext};
//!
//! struct Record {
//!     headers: Vec<(String, String)>,
//!     value: Vec<u8>,
//! }
//!
//! impl Described for Record {
//!     fn header(&self, name: &str) -> Option<&str> {
//!         self.headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
//!     }
//!
//!     fn payload(&self) -> &[u8] {
//!         &self.value
//!     }
//! }
//!
//! let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
//! let record = Record {
//!     headers: vec![
//!         header("ce_specversion", "1.0"),
//!         header("ce_id", "17"),
//!         header("ce_source", "/orders"),
//!         header("ce_type", "order.placed"),
//!         header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
//!     ],
//!     value: b"{}".to_vec(),
//! };
//! assert_eq!(record.kind(), Some("order.placed"));
//! assert!(record.id().is_some());
//! assert!(TraceContext::of(&record).is_some_and(|trace| trace.is_sampled()));
//! ```

#![forbid(unsafe_code)]

mod attributes;
pub mod cloudevents;
mod described;
mod give_up;
pub mod ids;
#[doc(hidden)]
pub mod kinds;
mod message;
mod publisher;
pub mod routes;
mod trace;
mod trace_state;

pub use described::{Described, MESSAGE_ID};
pub use give_up::{GiveUp, causes};
pub use message::Message;
pub use publisher::Publisher;
pub use trace::{TraceContext, TraceError};

/// The error that a handler or a publisher returns. Its text is kept. [`GiveUp`] says that another
/// attempt cannot help.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
