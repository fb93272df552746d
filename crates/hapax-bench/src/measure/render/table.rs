//! Tables, apart from the format in which they are printed.

use super::axis::{Axis, Marks};

/// Strategies, one a row.
pub struct Table {
    /// The name, unique within a page; also that of its picture.
    pub id: String,
    /// The conditions.
    pub caption: String,
    /// The meaning of the marks.
    pub legend: &'static str,
    pub head: Vec<String>,
    pub rows: Vec<Row>,
    /// The axis of the rows' marks, in formats that can draw.
    pub axis: Option<Axis>,
}

pub struct Row {
    pub name: String,
    pub ours: bool,
    pub marks: Marks,
    pub cells: Vec<String>,
}

impl Table {
    /// Leaves out columns in which nothing is said.
    pub fn without_empty_columns(mut self) -> Table {
        let is_said: Vec<bool> =
            (0..self.head.len()).map(|i| self.rows.iter().any(|row| !row.cells[i].is_empty())).collect();
        let retain = |cells: &mut Vec<String>| {
            let mut said = is_said.iter();
            cells.retain(|_| said.next() == Some(&true));
        };
        retain(&mut self.head);
        self.rows.iter_mut().for_each(|row| retain(&mut row.cells));
        self
    }
}
