//! The columns of headers, compared with those of the header that was printed. Pure.

use crate::args::HeaderMismatch;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// A line's fields, as what they contain.
type Fields<'f> = [Cow<'f, [u8]>];

/// The header that was printed, and the treatment of others.
#[derive(Clone, Debug)]
pub struct Columns {
    mismatch: HeaderMismatch,
    printed: Option<Printed>,
}

/// A header's columns, and the name of the input that has it.
#[derive(Clone, Debug)]
struct Printed {
    columns: Vec<Vec<u8>>,
    input: String,
}

/// The first line of an input.
#[derive(Debug, PartialEq)]
pub enum FirstLine {
    /// The first header of all.
    Header,
    /// A header that is printed, too, since its columns are others.
    OwnHeader,
    /// The header that was printed.
    SameHeader,
    /// A header with the same columns: the field, counted from 0, of each of the printed header's.
    Moved(Vec<usize>),
    /// A record, since the input has no header; and what is to be said of it.
    Record(String),
}

impl Columns {
    /// Creates the columns of inputs of which none was read yet.
    pub fn new(mismatch: HeaderMismatch) -> Self {
        Columns { mismatch, printed: None }
    }

    /// Compares the first line of an input with the header that was printed. `are_named` is true if
    /// it has all columns that are asked for, if any is.
    ///
    /// # Errors
    ///
    /// A line that cannot be taken; the text says why.
    pub fn compare(&mut self, line: &Fields, are_named: Option<bool>, input: &str) -> Result<FirstLine, String> {
        let Some(printed) = &self.printed else {
            self.print(line, input);
            return Ok(FirstLine::Header);
        };
        if line.iter().eq(&printed.columns) {
            return Ok(FirstLine::SameHeader);
        }
        let order = order(&printed.columns, line);
        let headers =
            format!("({}), and the header of {} is ({})", shown(line), printed.input, shown(&printed.columns));
        match (self.mismatch, order) {
            (HeaderMismatch::Align, Some(order)) => Ok(FirstLine::Moved(order)),
            (HeaderMismatch::Pass, order) if are_named.unwrap_or(order.is_some()) => {
                self.print(line, input);
                Ok(FirstLine::OwnHeader)
            }
            (HeaderMismatch::Pass, _) => Ok(FirstLine::Record(format!(
                "it seems to have no header: its first line, taken for a record, is {headers}"
            ))),
            _ if have_one_in_common(&printed.columns, line) => {
                Err(format!("its header is another one: it is {headers} (see --header-mismatch)"))
            }
            _ => Err(format!(
                "it seems to have no header: its first line is {headers} (--header-mismatch pass takes it for a record)"
            )),
        }
    }

    fn print(&mut self, line: &Fields, input: &str) {
        let columns = line.iter().map(|column| column.to_vec()).collect();
        self.printed = Some(Printed { columns, input: input.to_string() });
    }
}

/// Returns the field of each column, if both have the same, and none twice.
fn order(columns: &[Vec<u8>], line: &Fields) -> Option<Vec<usize>> {
    let places: HashMap<&[u8], usize> = line.iter().enumerate().map(|(at, column)| (&**column, at)).collect();
    let order: Vec<_> = columns.iter().map(|column| places.get(&**column).copied()).collect::<Option<_>>()?;
    let is_once = order.iter().collect::<HashSet<_>>().len() == order.len();
    (is_once && order.len() == line.len()).then_some(order)
}

fn have_one_in_common(columns: &[Vec<u8>], line: &Fields) -> bool {
    let names: HashSet<_> = columns.iter().map(|column| column.to_ascii_lowercase()).collect();
    line.iter().any(|column| names.contains(&column.to_ascii_lowercase()))
}

/// Returns columns as text, of which only the beginning is shown if it is long.
fn shown(columns: &[impl AsRef<[u8]>]) -> String {
    const SHOWN: usize = 300;
    let columns: Vec<_> = columns.iter().map(|column| column.as_ref().escape_ascii().to_string()).collect();
    let text = columns.join(", ");
    text.get(..SHOWN).map_or(text.clone(), |beginning| format!("{beginning} …"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use FirstLine::{Header, Moved, OwnHeader, Record, SameHeader};
    use HeaderMismatch::{Align, Error, Pass};

    fn compare(mismatch: HeaderMismatch, line: &str, are_named: Option<bool>) -> Result<FirstLine, String> {
        let mut columns = Columns::new(mismatch);
        let fields =
            |line: &'static str| line.split(',').map(|field| Cow::Borrowed(field.as_bytes())).collect::<Vec<_>>();
        assert_eq!(columns.compare(&fields("id,name"), None, "h1"), Ok(Header));
        let line: Vec<_> = line.split(',').map(|field| Cow::Borrowed(field.as_bytes())).collect();
        columns.compare(&line, are_named, "other")
    }

    #[test]
    fn first_lines_are_headers_as_the_option_says() {
        for mismatch in [Align, Error, Pass] {
            assert_eq!(compare(mismatch, "id,name", Some(true)), Ok(SameHeader));
        }
        assert_eq!(compare(Align, "name,id", None), Ok(Moved(vec![1, 0])));
        assert_eq!([compare(Pass, "name,id", None), compare(Pass, "x,id", Some(true))], [Ok(OwnHeader), Ok(OwnHeader)]);
        for line in ["5,e", "id", "id,name,x"] {
            for are_named in [None, Some(false)] {
                assert!(matches!(compare(Pass, line, are_named), Ok(Record(why)) if why.contains("h1 is (id, name)")));
            }
        }
        for (mismatch, line, why) in [
            (Error, "name,id", "another one: it is (name, id), and the header of h1 is (id, name)"),
            (Error, "id,name,x", "another one: it is (id, name, x), and"),
            (Align, "ID,x", "another one: it is (ID, x), and"),
            (Align, "id,id", "another one"),
            (Align, "5,e", "seems to have no header"),
            (Align, "", "seems to have no header"),
        ] {
            let said = compare(mismatch, line, Some(true)).unwrap_err();
            assert!(said.contains(why), "{line}: {said}");
        }
        let long = compare(Error, &"x".repeat(9_999), None).unwrap_err();
        assert!(long.len() < 1_000, "{long}");
    }
}
