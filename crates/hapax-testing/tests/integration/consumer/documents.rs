//! The document shows what the example prints.

use hapax_testing::consumer::Simulation;

#[path = "../../../examples/idempotent_consumer.rs"]
#[allow(dead_code)] // its main
mod example;

const DOCUMENT: &str = include_str!("../../../../../docs/idempotent-consumers.md");

#[test]
fn the_document_shows_what_the_example_finds() {
    let finding = Simulation::new(example::Payments { in_one_transaction: false }).run().unwrap_err();
    assert!(DOCUMENT.contains(&format!("```text\n{finding}\n```\n")), "what it finds:\n{finding}");
    Simulation::new(example::Payments { in_one_transaction: true }).run().unwrap();
}
