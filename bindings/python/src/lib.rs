//! The Python package `hapax-dedup`: ids, options, errors and answers go from Python to hapax and
//! back. Everything is decided in the library.
//!
//! `id`, `columns` and `options` read what Python passes, `verdict` and `errors` make what it gets;
//! `dedup` and `tiered` are the engines, `claim` the claims of both, `http` the layer for ASGI;
//! `runtime` waits.

mod claim;
mod columns;
mod dedup;
mod errors;
mod http;
mod id;
mod options;
mod runtime;
mod tiered;
mod verdict;

// Python's objects are aligned to 16 bytes.
const _: () = assert!(align_of::<dedup::Dedup>() <= 16 && align_of::<claim::HeldClaim>() <= 16);
const _: () = assert!(align_of::<tiered::TieredDedup>() <= 16 && align_of::<http::IdempotencyLayer>() <= 16);

#[pyo3::pymodule(gil_used = false)]
mod _hapax {
    #[pymodule_export]
    use crate::{
        claim::HeldClaim,
        dedup::Dedup,
        http::{IdempotencyLayer, Respond},
        options::ManualClock,
        runtime::end,
        tiered::{AsyncTieredDedup, TieredDedup},
    };
}
