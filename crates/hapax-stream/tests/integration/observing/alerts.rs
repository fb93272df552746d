//! The alerts: that each metric in them is there, that each has a panel, and, by `promtool`, that
//! each fires when it must, and else does not.

use super::documents::named;
use super::metrics::{Kind, documented};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::process::Command;
use testkit::directory::Directory;

const RULES: &str = include_str!("../../../../../docs/alerts.yml");
const CASES: &str = include_str!("alerts.yml");

#[derive(Debug, PartialEq)]
struct Rule {
    name: String,
    is_alert: bool,
    expression: String,
    panel: Option<String>,
}

/// Reads rules of which each field is a line, as in our file.
fn rules(text: &str) -> Vec<Rule> {
    let mut found: Vec<Rule> = Vec::new();
    for line in text.lines().map(str::trim) {
        let (field, value) = line.split_once(": ").unwrap_or((line, ""));
        match field {
            "- record" | "- alert" => found.push(Rule {
                name: value.to_owned(),
                is_alert: field == "- alert",
                expression: String::new(),
                panel: None,
            }),
            "expr" => found.last_mut().expect("a rule").expression = value.to_owned(),
            "panel" => found.last_mut().expect("a rule").panel = Some(value.to_owned()),
            _ => {}
        }
    }
    found
}

/// Returns an expression with those of recorded rules in place of their names.
fn resolved(expression: &str, rules: &[Rule]) -> String {
    let recorded = rules.iter().filter(|rule| !rule.is_alert);
    recorded.fold(expression.to_owned(), |text, rule| text.replace(&rule.name, &rule.expression))
}

#[test]
fn alerts_are_on_metrics_that_there_are_and_each_has_its_panel() {
    let (rules, metrics) = (rules(RULES), documented());
    let labels: BTreeSet<String> = metrics.values().flat_map(|metric| metric.labels.clone()).collect();
    let dashboard: serde_json::Value = serde_json::from_str(include_str!("../../../../../docs/grafana.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let document = include_str!("../../../../../docs/metrics.md");
    let alerts: Vec<&Rule> = rules.iter().filter(|rule| rule.is_alert).collect();
    assert!(alerts.len() > 7, "there are alerts: {alerts:?}");
    for alert in alerts {
        let expression = resolved(&alert.expression, &rules);
        let asked = named(&expression);
        assert!(!asked.is_empty(), "{alert:?}");
        for name in &asked {
            let metric = metrics.get(name).unwrap_or_else(|| panic!("{name} is not documented: {alert:?}"));
            assert_ne!(metric.kind, Kind::Histogram, "{name} has buckets, a sum and a count");
        }
        for group in expression.split("by (").skip(1) {
            for label in group.split(')').next().unwrap().split(',').map(str::trim) {
                assert!(label == "instance" || labels.contains(label), "{label} in {alert:?}");
            }
        }
        let title = alert.panel.as_deref().unwrap_or_else(|| panic!("{alert:?} has no panel"));
        let panel = panels.iter().find(|panel| panel["title"] == title);
        let panel = panel.unwrap_or_else(|| panic!("docs/grafana.json has no panel {title}"));
        let shown = panel["targets"].as_array().unwrap().iter().map(|target| target["expr"].as_str().unwrap());
        assert_eq!(named(&shown.collect::<Vec<_>>().join("\n")), asked, "the panel {title} shows something else");
        assert!(document.contains(&format!("`{}`", alert.name)), "docs/metrics.md lacks {}", alert.name);
        assert!(
            CASES.contains(&format!("alertname: {}\n        exp_alerts:", alert.name)),
            "no case of {}",
            alert.name
        );
    }
}

/// Returns what promtool says of rules by the cases, and whether they are as these say; none if it
/// is not installed.
fn tried(rules: &str) -> Option<(bool, String)> {
    let made = Directory::new("alerts");
    let folder = made.path();
    std::fs::write(folder.join("rules.yml"), rules).unwrap();
    std::fs::write(folder.join("cases.yml"), CASES.replace("- RULES", "- rules.yml")).unwrap();
    let run = |words: &[&str]| match Command::new("promtool").args(words).current_dir(folder).output() {
        Ok(output) => {
            let said = [&output.stdout[..], &output.stderr[..]].concat();
            Some((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            testkit::skipped_without("promtool", "prometheus");
            None
        }
        Err(error) => panic!("promtool: {error}"),
    };
    let checked = run(&["check", "rules", "rules.yml"]);
    checked.and_then(|(is_valid, said)| {
        assert!(is_valid, "{said}");
        run(&["test", "rules", "cases.yml"])
    })
}

/// Returns the rules with each alert's expression changed.
fn changed(change: impl Fn(&str) -> String) -> String {
    rules(RULES).iter().filter(|rule| rule.is_alert).fold(RULES.to_owned(), |text, rule| {
        text.replace(&format!("expr: {}\n", rule.expression), &format!("expr: {}\n", change(&rule.expression)))
    })
}

#[test]
fn each_alert_fires_when_it_must_and_a_wrong_one_is_noticed() {
    let Some((is_right, said)) = tried(RULES) else { return };
    assert!(is_right, "{said}");
    let never = changed(|expression| format!("({expression}) and vector(0) > 1"));
    let always = changed(|expression| {
        let comparison = expression.rfind(" > ").or_else(|| expression.rfind(" == ")).expect("a comparison");
        format!("{} > -1", &expression[..comparison])
    });
    for wrong in [never, always] {
        let (is_right, said) = tried(&wrong).expect("as before");
        assert!(!is_right, "nobody notices {wrong}");
        for rule in rules(RULES).iter().filter(|rule| rule.is_alert) {
            assert!(said.contains(&format!("alertname: {},", rule.name)), "{} is not noticed: {said}", rule.name);
        }
    }
}
