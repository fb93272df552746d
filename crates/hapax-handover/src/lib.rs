//! x
#![allow(dead_code, missing_docs)]
mod manifest;
mod plan;
mod protocol;
mod rules;
