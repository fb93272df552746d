//! Streams of Redis, as sources.

mod answers;
mod entry;
mod error;
mod options;
mod source;

pub use answers::StreamLag;
pub use entry::StreamEntry;
pub use error::RedisStreamError;
pub use options::RedisStreamOptions;
pub use source::RedisStream;
