//! Each backend does what a store promises, on a real server of the test's own.

mod postgres;
mod proxy;
