//! `FjallStore`.

#[cfg(unix)]
mod gone;
mod killed;
mod restored;
mod store;
mod tokens;
