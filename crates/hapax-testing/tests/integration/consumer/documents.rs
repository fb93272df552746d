//! The document shows the example as it is, and what it prints.

use hapax_testing::consumer::Simulation;

#[path = "../../../examples/idempotent_consumer.rs"]
#[allow(dead_code)] // its main
mod example;

const DOCUMENT: &str = include_str!("../../../../../docs/idempotent-consumers.md");

#[test]
fn the_document_shows_the_example_and_what_it_prints() {
    let text = include_str!("../../../examples/idempotent_consumer.rs");
    let code = &text[text.find("use hapax_testing").unwrap()..];
    assert!(DOCUMENT.contains(&format!("```rust\n{code}```\n")), "the code of the example");
    let finding = Simulation::new(example::Payments { in_one_transaction: false }).run().unwrap_err();
    assert!(DOCUMENT.contains(&format!("```text\n{finding}\n```\n")), "what it finds:\n{finding}");
    let report = Simulation::new(example::Payments { in_one_transaction: true }).run().unwrap();
    assert!(DOCUMENT.contains(&format!("```text\n{report}\n```\n")), "what it reports:\n{report}");
}
