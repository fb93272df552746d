//! The course: five minutes to the first deduplicated consumer, then durability, then sharing, then choosing; and the pages to look things up in.
//!
//! 1. [The first consumer](first_consumer)
//! 2. [Durability](durability): no message lost, and a memory that survives
//! 3. [Sharing](sharing): several instances, one memory
//! 4. [Choosing](choosing): how large a window, and which strategy at all
//! 5. [Inbox and outbox in production](inbox_and_outbox): what to watch, and what happens when
//!    something is away
//!
//! Then: which [pattern](patterns) fits; which store, how large, and what each failure costs ([scaling out](scaling_out)); what can be
//! [seen](metrics) of an engine at work.

/// Pages are read on their own, too: what they name needs no paths, and where they link to each other's files, these are links to modules.
macro_rules! page {
    ($name:ident, $file:literal) => {
        pub mod $name {
            #![doc = "[part 2]: super::durability\n[part 3]: super::sharing\n[part 4]: super::choosing"]
            #![doc = "[patterns]: super::patterns\n[scaling out]: super::scaling_out\n[metrics]: super::metrics"]
            #![doc = "[inbox and outbox]: super::inbox_and_outbox\n"]
            #![doc = include_str!(concat!("../docs/", $file))]
            #[allow(unused_imports)]
            use hapax::*;
            use hapax_redis::RedisOptions;
            use hapax_sqlite::SqliteTable;
            use hapax_store::Store;
        }
    };
}

page!(first_consumer, "guide/1-first-consumer.md");
page!(durability, "guide/2-durability.md");
page!(sharing, "guide/3-sharing.md");
page!(choosing, "guide/4-choosing.md");
page!(inbox_and_outbox, "guide/5-inbox-and-outbox.md");
page!(patterns, "patterns.md");
page!(scaling_out, "scaling-out.md");
page!(metrics, "metrics.md");
