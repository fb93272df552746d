//! Extracts a line's id and time.

use super::fields::{Dialect, Splitter, Unbalanced};
use super::json::Pointer;
use super::time;
use crate::args::{LineArgs, Quote, TimeFormat};
use crate::failure::Failure;
use hapax::Timestamp;
use regex::bytes::Regex;
use std::borrow::Cow;

/// Finds ids and times in lines.
#[derive(Debug)]
pub struct Extractor {
    id: Place,
    time: Option<(Place, TimeFormat)>,
    dialect: Dialect,
    splitter: Splitter,
}

/// The place of a value in a line.
#[derive(Debug)]
enum Place {
    Line,
    Field(usize),
    /// A column, whose number is known once the file's header was read.
    Column {
        name: String,
        number: usize,
    },
    Json(Pointer),
    Regex {
        regex: Regex,
        group: usize,
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
    pub fn new(args: &LineArgs) -> Result<Self, Failure> {
        let LineArgs { id, time, format } = args;
        let place =
            |field: Option<u32>, column: &Option<String>, json: &Option<String>, regex: &Option<String>, group| {
                Ok::<_, Failure>(match (field, column, json, regex) {
                    (Some(number), ..) => Some(Place::Field(number as usize)),
                    (_, Some(name), ..) => Some(Place::Column { name: name.clone(), number: 0 }),
                    (_, _, Some(pointer), _) => Some(Place::Json(Pointer::new(pointer))),
                    (.., Some(regex)) => Some(Place::regex(regex, group)?),
                    _ => None,
                })
            };
        let time_place = place(time.time_field, &time.time_column, &time.time_json, &time.time_regex, "time")?;
        let quote = match (format.quote, format.delimiter) {
            (Some(Quote::With(quote)), delimiter) if quote == delimiter => {
                return Err(Failure::Usage("--quote and --delimiter are the same".to_string()));
            }
            (Some(Quote::With(quote)), _) => Some(quote),
            (None, b',' | b';') => Some(b'"'),
            _ => None,
        };
        let dialect = Dialect { delimiter: format.delimiter, quote };
        Ok(Extractor {
            id: place(id.field, &id.column, &id.json, &id.regex, "id")?.unwrap_or(Place::Line),
            time: time_place.map(|place| (place, time.time_format)),
            dialect,
            splitter: Splitter::new(dialect),
        })
    }

    /// Returns the way records are divided into fields, if any field is asked for; otherwise lines
    /// are records.
    pub fn dialect(&self) -> Option<Dialect> {
        let is_field = |place: &Place| matches!(place, Place::Field(_) | Place::Column { .. });
        let asked = is_field(&self.id) || self.time.as_ref().is_some_and(|(place, _)| is_field(place));
        asked.then_some(self.dialect)
    }

    /// Returns true if lines contain their time.
    pub fn has_time(&self) -> bool {
        self.time.is_some()
    }

    /// Returns true if a file must begin with a header.
    pub fn needs_header(&self) -> bool {
        let needs = |place: &Place| matches!(place, Place::Column { .. });
        needs(&self.id) || self.time.as_ref().is_some_and(|(place, _)| needs(place))
    }

    /// Reads a file's header, and finds its columns.
    pub fn read_header(&mut self, line: &[u8]) -> Result<(), String> {
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line); // some programs mark UTF-8
        let columns: Vec<_> = self.splitter.split(line).collect::<Result<_, _>>().map_err(describe)?;
        for place in [Some(&mut self.id), self.time.as_mut().map(|(place, _)| place)].into_iter().flatten() {
            if let Place::Column { name, number } = place {
                let found = columns.iter().position(|column| **column == *name.as_bytes());
                *number = 1 + found.ok_or_else(|| {
                    let columns: Vec<_> = columns.iter().map(|column| column.escape_ascii().to_string()).collect();
                    format!("there is no column `{name}` in the header ({})", columns.join(", "))
                })?;
            }
        }
        Ok(())
    }

    /// Returns the id and the time of a line, without its end. An error says what is wrong with the
    /// line.
    pub fn extract<'a>(&self, line: &'a [u8]) -> Result<Extracted<'a>, String> {
        let Some(id) = self.id.find(line, &self.splitter)?.filter(|id| !id.trim_ascii().is_empty()) else {
            return Ok(Extracted::Missing);
        };
        let at = match &self.time {
            None => None,
            Some((place, format)) => {
                let text = place.find(line, &self.splitter)?.ok_or("there is no time")?;
                Some(time::parse(&text, *format)?)
            }
        };
        Ok(Extracted::Event { id, at })
    }
}

impl Place {
    fn regex(text: &str, group: &str) -> Result<Self, Failure> {
        let regex = Regex::new(text).map_err(|e| Failure::Usage(e.to_string()))?;
        let named = regex.capture_names().position(|name| name == Some(group));
        let group = named.unwrap_or(usize::from(regex.captures_len() > 1));
        Ok(Place::Regex { regex, group })
    }

    fn find<'a>(&self, line: &'a [u8], splitter: &Splitter) -> Result<Option<Cow<'a, [u8]>>, String> {
        match self {
            Place::Line => Ok(Some(Cow::Borrowed(line))),
            Place::Field(number) | Place::Column { number, .. } => splitter.nth(line, *number).map_err(describe),
            Place::Json(pointer) => pointer.find(line),
            Place::Regex { regex, group: 0 } => Ok(regex.find(line).map(|found| Cow::Borrowed(found.as_bytes()))),
            Place::Regex { regex, group } => {
                let found = regex.captures(line).and_then(|captures| captures.get(*group));
                Ok(found.map(|found| Cow::Borrowed(found.as_bytes())))
            }
        }
    }
}

fn describe(unbalanced: Unbalanced) -> String {
    format!("field {}: {}", unbalanced.field, unbalanced.problem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Command};
    use clap::Parser;

    fn extractor(options: &[&str]) -> Result<Extractor, Failure> {
        let words = ["hapax", "filter"].iter().chain(options);
        let Command::Filter(args) = Args::try_parse_from(words).unwrap().command else { unreachable!() };
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
    fn what_is_missing_or_blank() {
        for (options, line) in [
            (&[][..], ""),
            (&[], " \t"),
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
        assert!(matches!(extractor(&["--regex", "("]), Err(Failure::Usage(_))));
        assert!(matches!(extractor(&["--quote", ",", "--delimiter", ","]), Err(Failure::Usage(_))));
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
