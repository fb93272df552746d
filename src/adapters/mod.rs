//! Collections and iterators without their duplicates.

mod iter;
mod retain;

pub use iter::DedupIterator;
