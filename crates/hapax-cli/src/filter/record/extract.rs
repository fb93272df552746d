//! Extracts a line's id and time.

use super::fields::{Dialect, Splitter, Unbalanced};
use super::hints::with_another_delimiter;
use super::json::{self, Pointer};
use super::pattern::Pattern;
use super::time::Times;
use crate::args::{Blank, LineArgs, Quote};
use crate::error::CommandError;
use hapax::Timestamp;
use std::borrow::Cow;

/// Finds ids and times in lines.
#[derive(Clone, Debug)]
pub struct Extractor {
    id: Place,
    /// True if a blank id is one, and not missing.
    takes_blank: bool,
    time: Option<(Place, Times)>,
    dialect: Dialect,
    splitter: Splitter,
}

/// The place of a value in a line.
#[derive(Clone, Debug)]
enum Place {
    Line,
    /// All fields of a record whose fields may be quoted.
    Record,
    Field(usize),
    /// A column, whose number is known once the file's header was read.
    Column {
        name: String,
        number: usize,
    },
    /// A value in JSON, by its text.
    Json(Pointer),
    /// A value in JSON, by its text and its type.
    Typed(Pointer),
    Regex(Pattern),
    /// The parts of the id, each by itself.
    Several {
        parts: Vec<Place>,
        ignore_case: bool,
        takes_blank: bool,
    },
}

/// The contents of a line.
#[derive(Debug, PartialEq)]
pub enum Extracted<'a> {
    Event {
        id: Cow<'a, [u8]>,
        at: Option<Timestamp>,
    },
    /// The id is missing, or blank.
    Missing,
}

impl Extractor {
    pub fn new(args: &LineArgs) -> Result<Self, CommandError> {
        let LineArgs { id, time, format, loose, ignore_case, blank } = args;
        let places = |fields: &[u32], columns: &[String], json: &[String], regex: &Option<String>, group| {
            let fields = fields.iter().map(|number| Place::Field(*number as usize));
            let columns = columns.iter().map(|name| Place::Column { name: name.clone(), number: 0 });
            let of_json = if *loose || group == "time" { Place::Json } else { Place::Typed };
            let json = json.iter().map(|pointer| of_json(Pointer::new(pointer)));
            let regex = regex.iter().map(|regex| Pattern::new(regex, group).map(Place::Regex));
            fields.chain(columns).chain(json).map(Ok).chain(regex).collect::<Result<Vec<_>, CommandError>>()
        };
        let mut id_places = places(&id.field, &id.column, &id.json, &id.regex, "id")?;
        let [column, json] = [&time.time_column, &time.time_json].map(Option::as_slice);
        let mut time_places = places(time.time_field.as_slice(), column, json, &time.time_regex, "time")?;
        let times = Times::new(&time.time_format, time.time_zone.as_ref()).map_err(CommandError::Usage);
        let time_place = time_places.pop().map(|place| times.map(|times| (place, times))).transpose()?;
        let delimiter = format.delimiter();
        let quote = match format.quote {
            Some(Quote::With(quote)) if quote == delimiter => {
                return Err(CommandError::Usage("--quote and --delimiter are the same".to_string()));
            }
            Some(Quote::With(quote)) => Some(quote),
            Some(Quote::None) => None,
            None => Dialect::quote_of(delimiter).filter(|_| !format.null),
        };
        let dialect = Dialect { delimiter, quote };
        let takes_blank = id_places.is_empty() && matches!(blank, None | Some(Blank::Once));
        if id_places.is_empty() {
            id_places.push(if quote.is_some() { Place::Record } else { Place::Line });
        }
        Ok(Extractor {
            takes_blank,
            id: Place::all(id_places, *ignore_case, takes_blank),
            time: time_place,
            dialect,
            splitter: Splitter::new(dialect),
        })
    }

    /// Returns the parts of an id as lines have them: the values of several fields or columns, or
    /// all of it.
    pub fn parts_of<'i>(&self, id: &'i [u8]) -> Vec<&'i [u8]> {
        let parts = if matches!(self.id, Place::Several { .. }) { divide(id) } else { vec![id] };
        let shown = |(part, place): (_, &_)| if matches!(place, Place::Typed(_)) { json::shown(part) } else { part };
        parts.into_iter().zip(self.id.parts()).map(shown).collect()
    }

    /// Returns the way records are divided into fields; none if lines are JSON, and no field is
    /// asked for.
    pub fn dialect(&self) -> Option<Dialect> {
        let is_field = |place: &Place| matches!(place, Place::Field(_) | Place::Column { .. });
        let is_json = |place: &Place| matches!(place, Place::Json(_) | Place::Typed(_));
        (self.places().any(is_field) || !self.places().any(is_json)).then_some(self.dialect)
    }

    /// Returns true if lines contain their time.
    pub fn has_time(&self) -> bool {
        self.time.is_some()
    }

    /// Returns true if a file must begin with a header.
    pub fn needs_header(&self) -> bool {
        self.places().any(|place| place.name().is_some())
    }

    /// Returns the places of the id and of the time, each by itself.
    fn places(&self) -> impl Iterator<Item = &Place> {
        self.id.parts().iter().chain(self.time.as_ref().map(|(place, _)| place))
    }

    /// Returns the columns of a header.
    pub fn columns<'a>(&self, line: &'a [u8]) -> Result<Vec<Cow<'a, [u8]>>, String> {
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line); // some programs mark UTF-8
        self.splitter.split(line).collect::<Result<_, _>>().map_err(describe)
    }

    /// Returns true if all columns that are asked for are there; none if none is asked for by its
    /// name.
    pub fn are_in(&self, columns: &[Cow<[u8]>]) -> Option<bool> {
        let mut names = self.places().filter_map(Place::name).peekable();
        names.peek()?;
        Some(names.all(|name| columns.iter().any(|column| **column == *name.as_bytes())))
    }

    /// Returns a record with its fields in this order; none if it has not as many.
    pub fn ordered(&self, record: &[u8], order: &[usize]) -> Result<Option<Vec<u8>>, String> {
        self.splitter.ordered(record, order).map_err(describe)
    }

    /// Reads a file's header, and finds its columns.
    pub fn read_header(&mut self, line: &[u8]) -> Result<(), String> {
        let columns = self.columns(line)?;
        let of_id = self.id.parts_mut().iter_mut().map(|place| (place, "--json"));
        for (place, option) in of_id.chain(self.time.as_mut().map(|(place, _)| (place, "--time-json"))) {
            if let Place::Column { name, number } = place {
                let found = columns.iter().position(|column| **column == *name.as_bytes());
                *number = 1 + found.ok_or_else(|| {
                    if line.trim_ascii_start().starts_with(b"{") {
                        let pointer = name.replace('~', "~0").replace('/', "~1");
                        return format!("there is no header: lines are JSON ({option} /{pointer})");
                    }
                    let hint = with_another_delimiter("one", line, self.dialect, |columns| {
                        columns.iter().any(|column| **column == *name.as_bytes())
                    });
                    let columns: Vec<_> = columns.iter().map(|column| column.escape_ascii().to_string()).collect();
                    format!("there is no column `{name}` in the header ({}){hint}", columns.join(", "))
                })?;
            }
        }
        Ok(())
    }

    /// Returns the id and the time of a line, without its end. An error says what is wrong with the
    /// line.
    pub fn extract<'a>(&self, line: &'a [u8]) -> Result<Extracted<'a>, String> {
        let found = self.id.find(line, &self.splitter)?;
        let Some(id) = found.filter(|id| self.takes_blank || !id.trim_ascii().is_empty()) else {
            return Ok(Extracted::Missing);
        };
        let at = match &self.time {
            None => None,
            Some((place, times)) => {
                let text = place.find(line, &self.splitter)?;
                let text = text.ok_or_else(|| format!("there is no time{}", self.hint(place, line)))?;
                Some(times.parse(&text)?)
            }
        };
        Ok(Extracted::Event { id, at })
    }

    /// Returns the offset of the field of a record that does not end, and its description.
    pub fn unterminated(&self, record: &[u8]) -> Option<(usize, String)> {
        let unbalanced = self.splitter.split(record).find_map(Result::err)?;
        Some((unbalanced.at, format!("{} (--quote none if quotes are text)", describe(unbalanced))))
    }

    /// Describes why a line has no id, with a hint how it may have one, if it seems so.
    pub fn describe_missing(&self, line: &[u8]) -> String {
        let hints = self.id.parts().iter().map(|place| self.hint(place, line));
        let hint = hints.into_iter().find(|hint| !hint.is_empty()).unwrap_or_default();
        format!("the id is missing or blank (see --missing){hint}")
    }

    /// Returns a hint with which delimiter a line that has too few fields has more, or says what
    /// there is in JSON.
    fn hint(&self, place: &Place, line: &[u8]) -> String {
        match place {
            Place::Field(number) if matches!(self.splitter.nth(line, *number), Ok(None)) => {
                with_another_delimiter(&format!("a field {number}"), line, self.dialect, |fields| {
                    fields.get(number - 1).is_some_and(|field| !field.trim_ascii().is_empty())
                })
            }
            Place::Json(pointer) | Place::Typed(pointer) => pointer.describe_missing(line),
            _ => String::new(),
        }
    }
}

impl Place {
    /// Returns the place that is all of these.
    fn all(mut parts: Vec<Place>, ignore_case: bool, takes_blank: bool) -> Self {
        match parts.pop() {
            Some(one) if parts.is_empty() && !ignore_case => one,
            last => Place::Several { parts: parts.into_iter().chain(last).collect(), ignore_case, takes_blank },
        }
    }

    /// Returns the name of a column.
    fn name(&self) -> Option<&str> {
        if let Place::Column { name, .. } = self { Some(name) } else { None }
    }

    fn parts(&self) -> &[Place] {
        match self {
            Place::Several { parts, .. } => parts,
            one => std::slice::from_ref(one),
        }
    }

    fn parts_mut(&mut self) -> &mut [Place] {
        match self {
            Place::Several { parts, .. } => parts,
            one => std::slice::from_mut(one),
        }
    }

    fn find<'a>(&self, line: &'a [u8], splitter: &Splitter) -> Result<Option<Cow<'a, [u8]>>, String> {
        match self {
            Place::Line => Ok(Some(Cow::Borrowed(line))),
            Place::Record => splitter.plain(line).map(Some).map_err(describe),
            Place::Field(number) | Place::Column { number, .. } => splitter.nth(line, *number).map_err(describe),
            Place::Several { parts, ignore_case, takes_blank } => {
                let mut id = Vec::new();
                for place in parts {
                    let part = place.find(line, splitter)?.filter(|part| *takes_blank || !part.trim_ascii().is_empty());
                    let Some(part) = part else { return Ok(None) };
                    let part = if *ignore_case { lowercase(&part).into() } else { part };
                    // With its length, so that `ab`, `c` is another id than `a`, `bc`.
                    id.extend_from_slice(&(part.len() as u64).to_le_bytes());
                    id.extend_from_slice(&part);
                }
                Ok(Some(Cow::Owned(id)))
            }
            Place::Json(pointer) => pointer.find(line),
            Place::Typed(pointer) => pointer.find_id(line),
            Place::Regex(pattern) => Ok(pattern.find(line).map(Cow::Borrowed)),
        }
    }
}

/// Returns a text in lower case, as Unicode has it, and what is no UTF-8 as it is.
fn lowercase(text: &[u8]) -> Vec<u8> {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let mut lower = Vec::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        lower.extend_from_slice(chunk.valid().to_lowercase().as_bytes());
        lower.extend_from_slice(chunk.invalid());
    }
    lower
}

/// Divides an id of several parts, each of which has its length before it.
fn divide(mut id: &[u8]) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    while let Some((length, rest)) = id.split_first_chunk() {
        let Some((part, rest)) = rest.split_at_checked(u64::from_le_bytes(*length) as usize) else { break };
        parts.push(part);
        id = rest;
    }
    parts
}

fn describe(unbalanced: Unbalanced) -> String {
    format!("field {}: {}", unbalanced.field, unbalanced.problem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::options::FilterArgs;

    fn extractor(options: &[&str]) -> Result<Extractor, CommandError> {
        let args = FilterArgs::parse(options.iter().copied()).unwrap();
        Extractor::new(&args.lines)
    }

    fn id(options: &[&str], line: &str) -> Result<Option<String>, String> {
        match extractor(options).unwrap().extract(line.as_bytes())? {
            Extracted::Event { id, .. } => Ok(Some(String::from_utf8(id.into_owned()).unwrap())),
            Extracted::Missing => Ok(None),
        }
    }

    #[test]
    fn ids_are_where_the_options_say() {
        let some = |text: &str| Ok(Some(text.to_string()));
        assert_eq!(id(&[], "a\tb"), some("a\tb"));
        assert_eq!(id(&["--field", "2"], "a\tb"), some("b"));
        assert_eq!(id(&["--field", "2", "--delimiter", ","], "a,\"b,c\""), some("b,c"));
        assert_eq!(id(&["--field", "2", "--delimiter", ",", "--quote", "none"], "a,\"b,c\""), some("\"b"));
        assert_eq!(id(&["--json", "/a/b"], r#"{"a":{"b":17}}"#), some("17"));
        assert_eq!(id(&["--regex", "x[0-9]+"], "..x17.."), some("x17"));
        assert_eq!(id(&["--regex", "x([0-9]+)"], "..x17.."), some("17"));
        assert_eq!(id(&["--regex", "(?<kind>.)(?<id>[0-9]+)"], "x17"), some("17"));
    }

    #[test]
    fn several_fields_are_one_id() {
        let several = |line| id(&["--field", "3,1"], line).unwrap();
        assert_eq!(several("a\tx\tb"), several("a\ty\tb"));
        for other in ["b\tx\ta", "ab\tx\t", "a\tx\tbc", "\tx\tab"] {
            assert_ne!(several("a\tx\tb"), several(other), "{other}");
        }
        let two = extractor(&["--field", "3,1"]).unwrap();
        let Ok(Extracted::Event { id: both, .. }) = two.extract(b"a\tx\tbc") else { panic!("it has both") };
        assert_eq!(two.parts_of(&both), [b"bc", &b"a"[..]]);
        // Parts are told apart, and none may be missing.
        assert_ne!(several("ab\tx\tc"), several("a\tx\tbc"));
        assert_eq!([several("a\tx\t "), several("a\tx"), several("\tx\tb")], [None, None, None]);
        assert_eq!(id(&["--field", "2", "--field", "1"], "a\tb"), id(&["--field", "2,1"], "a\tb"));
        let mut extractor = extractor(&["--column", "line,order", "--delimiter", ","]).unwrap();
        assert!(extractor.needs_header() && extractor.dialect().is_some());
        let mut ids = Vec::new();
        for (header, line) in [("order,what,line", "17,x,1"), ("line,order", "1,17")] {
            extractor.read_header(header.as_bytes()).unwrap();
            let Ok(Extracted::Event { id, .. }) = extractor.extract(line.as_bytes()) else { panic!("{line}") };
            ids.push(id.into_owned());
        }
        assert_eq!(ids[0], ids[1]);
        assert!(extractor.read_header(b"order,what").unwrap_err().contains("`line`"));
    }

    #[test]
    fn what_is_missing_or_blank() {
        for (options, line) in [
            (&["--blank", "drop"][..], ""),
            (&["--blank", "pass"], " \t"),
            (&["--field", "3"], "a\tb"),
            (&["--field", "2"], "a\t \tc"),
            (&["--json", "/a"], r#"{"a": ""}"#),
            (&["--json", "/a"], r#"{"a": null}"#),
            (&["--json", "/a"], "{}"),
            (&["--regex", "x(y)?"], "x"),
            (&["--regex", "z"], "x"),
        ] {
            assert_eq!(id(options, line), Ok(None), "{options:?} {line:?}");
        }
        // These are ids.
        assert_eq!((id(&[], ""), id(&["--blank", "once"], " ")), (Ok(Some(String::new())), Ok(Some(" ".to_string()))));
        assert_eq!(id(&["--json", "/a"], r#"{"a": 0}"#), Ok(Some("0".to_string())));
        assert_eq!(id(&["--json", "/a"], r#"{"a": false}"#), Ok(Some("false".to_string())));
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert!(id(&["--json", "/a"], "{").is_err());
        assert!(id(&["--field", "1", "--delimiter", ","], "\"a").unwrap_err().contains("field 1"));
        let times = ["--window", "1m", "--time-field", "2", "--time-format", "s"];
        assert!(id(&times, "a").unwrap_err().contains("no time"));
        assert!(id(&times, "a\tx").unwrap_err().contains("`x`"));
        assert!(matches!(extractor(&["--regex", "("]), Err(CommandError::Usage(_))));
        assert!(matches!(extractor(&["--quote", ",", "--delimiter", ","]), Err(CommandError::Usage(_))));
    }

    #[test]
    fn columns_are_found_by_name_in_each_file() {
        let mut extractor = extractor(&[
            "--column",
            "id",
            "--window",
            "1m",
            "--time-column",
            "at",
            "--time-format",
            "s",
            "--delimiter",
            ",",
        ])
        .unwrap();
        assert!(extractor.needs_header());
        for (header, line) in [("\u{feff}id,at", "x,5"), ("at,\"id\"", "5,x")] {
            extractor.read_header(header.as_bytes()).unwrap();
            let expected = Extracted::Event { id: Cow::Borrowed(b"x"), at: Some(Timestamp::from_secs(5)) };
            assert_eq!(extractor.extract(line.as_bytes()), Ok(expected));
        }
        assert!(extractor.read_header(b"id,time").unwrap_err().contains("`at`"));
    }
}
