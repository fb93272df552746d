//! The contents of a report, in order, whatever the format.

use super::table::{Row, Table};
use super::view::{Group, Line, View};
use super::{answer, columns, matrix, notes, pivot, words};
use crate::measure::Report;

pub struct Page {
    pub title: String,
    pub lead: String,
    pub warnings: Vec<String>,
    pub sections: Vec<Section>,
}

/// A part of the page; what is empty is not there.
#[derive(Default)]
pub struct Section {
    pub id: String,
    pub title: String,
    /// True if it is a part of the one before.
    pub is_part: bool,
    /// True if it explains the tables: pages that can link to it have it.
    pub is_aside: bool,
    /// Sentences above the tables.
    pub sentences: Vec<String>,
    pub tables: Vec<Table>,
    pub notes: Vec<String>,
    pub terms: Vec<(String, String)>,
    pub command: Option<String>,
}

impl Section {
    fn new(id: &str, title: &str) -> Self {
        Section { id: format!("{id}-section"), title: title.into(), ..Section::default() }
    }
}

impl Page {
    pub fn of(report: &Report) -> Page {
        let view = View::of(report);
        let title = match view.main() {
            Some(main) => format!("Deduplication strategies at {}", words::live(&main.setting)),
            None => "Deduplication strategies".into(),
        };
        let machine = &report.machine;
        let processors = words::plural(machine.processors, "processor", "processors");
        let date = words::date(report.began_unix_seconds);
        let strategies = words::plural(view.strategies().len(), "strategy", "strategies");
        let settings = words::plural(view.groups.len(), "setting", "settings");
        let lead = format!("{strategies} in {settings} on {}, {processors}. {date}.", machine.processor);
        Page { title, lead, warnings: notes::warnings(&view), sections: sections(&view) }
    }
}

fn sections(view: &View) -> Vec<Section> {
    let entries = matrix::entries(view);
    let tables = |id, title, tables| Section { tables, ..Section::new(id, title) };
    let mut sections = vec![
        Section {
            sentences: answer::advice(view, &entries),
            tables: matrix::table(view, &entries).into_iter().collect(),
            ..Section::new("answer", "Which one to take")
        },
        Section {
            sentences: answer::caveats(view, &entries),
            ..Section::new("caveats", "Who was wrong, and where hapax loses")
        },
        tables("latency", "Latency", pivot::latencies(view)),
        tables("threads", "Throughput by threads", pivot::tables(view, &pivot::THREADS)),
        tables("live", "Throughput by live ids", pivot::tables(view, &pivot::LIVE)),
        tables("accuracy", "Wrong answers in less memory", pivot::tables(view, &pivot::BUDGET)),
        Section {
            sentences: vec!["One table for each setting, the fastest first.".into()],
            ..Section::new("everything", "Everything that was measured")
        },
    ];
    sections.extend(view.groups.iter().enumerate().map(|(i, it)| group(i + 1, it)));
    let explained = columns::ALL.iter().map(|(head, says, _)| (head.to_string(), says.to_string()));
    let absent = view.report.absent.iter().map(|absent| (absent.strategy.clone(), absent.reason.clone()));
    sections.extend([
        Section {
            is_part: true,
            is_aside: true,
            terms: explained.collect(),
            ..Section::new("columns", "What the columns mean")
        },
        Section { terms: absent.collect(), ..Section::new("absent", "Not measured") },
        Section {
            terms: notes::conditions(view),
            command: Some(view.report.command.clone()),
            ..Section::new("repeat", "Machine, and how to repeat it")
        },
    ]);
    sections.retain(|section| !section.is_empty());
    sections
}

impl Section {
    fn is_empty(&self) -> bool {
        self.sentences.is_empty() && self.tables.is_empty() && self.terms.is_empty() && self.command.is_none()
    }
}

fn group(number: usize, group: &Group) -> Section {
    let (id, title) = (format!("setting-{number}"), words::setting(&group.setting));
    let columns = columns::of(group);
    let row = |line: &Line| Row {
        name: line.name.clone(),
        ours: line.ours,
        marks: Default::default(),
        cells: columns.iter().map(|(_, _, cell)| cell(line)).collect(),
    };
    let head = columns.iter().map(|(head, ..)| head.to_string()).collect();
    let rows = group.lines.iter().map(row).collect();
    let table = Table { id: id.clone(), caption: String::new(), legend: "", head, rows, axis: None };
    Section { is_part: true, tables: vec![table], notes: notes::of(group), ..Section::new(&id, &title) }
}
