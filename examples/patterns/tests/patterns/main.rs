//! Delivers each message several times, dies at every step, delivers it to four consumers at once,
//! and looks at what has come of it; so do naive versions, which are found out. On servers that the
//! tests start and stop themselves: without PostgreSQL they say SKIPPED.

mod harness;

mod browser;
mod bulk;
mod daily;
mod hot;
mod killed;
mod mails;
mod named;
mod produced;
mod rows;
mod sagas;
mod shop;
