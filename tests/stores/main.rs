//! Each store is what it promises to be, on a server or in a directory of its own, and after kill -9.

mod common;
mod fjall;
mod killed;
mod sqlite;
