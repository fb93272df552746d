//! Documents whose code is compiled, and run unless it needs a server, as it is shown.

/// Makes the code of a document in Markdown documentation tests.
macro_rules! document {
    ($name:ident, $path:literal) => {
        #[doc = include_str!(concat!("../../../", $path))]
        struct $name;
    };
}

document!(Readme, "README.md");
document!(FirstConsumer, "docs/guide/1-first-consumer.md");
document!(Durability, "docs/guide/2-durability.md");
document!(Sharing, "docs/guide/3-sharing.md");
document!(Choosing, "docs/guide/4-choosing.md");
document!(InboxAndOutbox, "docs/guide/5-inbox-and-outbox.md");
document!(Metrics, "docs/metrics.md");
document!(Migrating, "docs/migrating.md");
document!(Patterns, "docs/patterns.md");
document!(ScalingOut, "docs/scaling-out.md");
