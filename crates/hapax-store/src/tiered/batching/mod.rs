//! Requests on their way to the store: gathered in batches by kind and node, sent, tried again, and
//! answered.
//!
//! `ask` is what callers use: it joins single flights, waits for permits, and sends requests
//! (`pending`) to a `batcher`, whose `driver` makes each `call` through the `caller`; `writer`
//! calls without being asked. `giving_back` is for grants whose caller is gone. `operation` defines
//! a request, `operations` are all there are, and `nodes` are the parts of a store that answer
//! independently.

mod answers;
mod ask;
mod batcher;
mod batchers;
mod call;
mod caller;
mod client;
mod driver;
mod giving_back;
mod nodes;
mod operation;
mod operations;
mod pending_request;
mod writer;

pub(super) use answers::ended;
pub(super) use batcher::QueueOptions;
pub(super) use batchers::Batched;
pub(super) use caller::Caller;
pub(super) use client::Client;
pub(super) use nodes::{Node, NodeOptions, Nodes, in_order};
pub(super) use operation::UNNUMBERED;
pub(super) use operations::*;
