//! Everything that is made of a report: the table, the page, the pictures.

mod fixture;
mod odd;
mod pages;

#[test]
fn the_document_says_how_many_strategies_there_are() {
    let document = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/bench.md")).unwrap();
    let count = hapax_bench::strategy::listed::<[u8]>().len() + hapax_bench::strategy::not_built().len();
    assert!(document.contains(&format!("{count} strategies ")), "there are {count}");
}
