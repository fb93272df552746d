//! Checks that the documents are right.

use super::metrics::{Kind, documented};
use std::collections::BTreeSet;

/// Returns the metrics that the queries of a dashboard name, without the suffixes that Prometheus
/// appends to a histogram's name.
pub fn named(dashboard: &str) -> BTreeSet<String> {
    let is_of_a_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = dashboard.split(|c| !is_of_a_name(c)).filter(|word| word.starts_with("hapax_"));
    words.map(str::to_owned).collect()
}

#[test]
fn the_dashboard_shows_metrics_that_there_are() {
    let dashboard = include_str!("../../../../../docs/grafana.json");
    let parsed: serde_json::Value = serde_json::from_str(dashboard).unwrap();
    let panels = parsed["panels"].as_array().unwrap();
    let queries: Vec<&str> = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().into_iter().flatten())
        .map(|target| target["expr"].as_str().unwrap())
        .collect();
    assert!(
        panels.len() > 10 && queries.len() >= panels.len() - 4,
        "{} panels, {} queries",
        panels.len(),
        queries.len()
    );

    let metrics = documented();
    let mut shown = BTreeSet::new();
    for name in queries.iter().flat_map(|query| named(query)) {
        let histogram = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
        let metric = match histogram.and_then(|name| metrics.get(name)) {
            Some(metric) => {
                assert_eq!(metric.kind, Kind::Histogram, "{name}");
                histogram.unwrap().to_owned()
            }
            None => {
                let metric = metrics.get(&name).unwrap_or_else(|| panic!("{name} is not documented"));
                assert_ne!(metric.kind, Kind::Histogram, "{name} has buckets, a sum and a count");
                name
            }
        };
        shown.insert(metric);
    }
    let hidden: Vec<_> = metrics.keys().filter(|name| !shown.contains(*name)).collect();
    assert!(hidden.is_empty(), "the dashboard does not show {hidden:?}");
    assert_eq!(named(dashboard).len(), named(&queries.join("\n")).len(), "metrics are named outside of queries");
}

#[test]
fn what_queries_group_by_are_labels() {
    let dashboard: serde_json::Value = serde_json::from_str(include_str!("../../../../../docs/grafana.json")).unwrap();
    let labels: BTreeSet<String> = documented().into_values().flat_map(|metric| metric.labels).collect();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let query = target["expr"].as_str().unwrap();
            for group in query.split("by (").skip(1) {
                for label in group.split(')').next().unwrap().split(',').map(str::trim) {
                    let prometheus = ["le", "instance"].contains(&label);
                    assert!(prometheus || labels.contains(label), "{label} in {query}");
                }
            }
            let opened = query.matches(['(', '[', '{']).count();
            assert_eq!(opened, query.matches([')', ']', '}']).count(), "{query}");
        }
    }
}
