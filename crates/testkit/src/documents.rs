//! The Markdown documents' examples, which are compiled as they are shown.

/// The file `README.md`.
#[doc = include_str!("../../../README.md")]
struct Readme;
