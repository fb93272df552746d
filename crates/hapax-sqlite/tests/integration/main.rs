//! `SqliteStore` and `SqliteTable`.

mod killed;
mod restored;
#[cfg(unix)]
mod shared_file;
mod store;
mod tokens;
