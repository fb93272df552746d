//! Writes a report to its destinations.

use crate::args::OF_RECORDS;
use crate::error::CommandError;
use hapax_bench::measure::{Report, compare, render};
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Options that mean nothing to a report that exists already. Together with those that say how
/// lines are read, these are all but the options for its output.
const OF_MEASUREMENTS: [&str; 19] = [
    "workload",
    "duplicates",
    "distance",
    "ids",
    "files",
    "live",
    "threads",
    "batch",
    "rate",
    "think",
    "budget",
    "rounds",
    "only",
    "without",
    "seed",
    "quick",
    "huge_pages",
    "list",
    "window",
];

/// Files to write the report to, and reports to read.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Where results go")]
pub struct OutputArgs {
    /// Keep the report, for --from and --compare
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,

    /// Write one line a run, for programs
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,

    /// Write the report as one page that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Write the tables for a README
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,

    /// Write the tables that can be drawn as pictures, each a file in this directory
    #[arg(long, value_name = "DIR")]
    pub svg: Option<PathBuf>,

    /// Say what has changed since this report, beyond noise
    #[arg(long, value_name = "OLD.json")]
    pub compare: Option<PathBuf>,

    /// Measure nothing; take this report
    #[arg(long, value_name = "REPORT.json", conflicts_with_all = OF_MEASUREMENTS, conflicts_with_all = OF_RECORDS)]
    pub from: Option<PathBuf>,
}

impl OutputArgs {
    fn files(&self) -> impl Iterator<Item = (&'static str, &PathBuf)> {
        let files =
            [("--save", &self.save), ("--csv", &self.csv), ("--html", &self.html), ("--markdown", &self.markdown)];
        files.into_iter().filter_map(|(option, path)| Some((option, path.as_ref()?)))
    }

    /// Checks for failures before anything is measured: reports that cannot be read, places that
    /// cannot be written to.
    pub fn check(&self) -> Result<(), CommandError> {
        for path in self.compare.iter().chain(&self.from) {
            read(path)?;
        }
        let files: Vec<_> = self.files().collect();
        for (i, (option, path)) in files.iter().enumerate() {
            if let Some((other, _)) = files[..i].iter().find(|(_, other)| other == path) {
                return Err(CommandError::Usage(format!("{other} and {option} both name {}", path.display())));
            }
            if path.is_dir() {
                return Err(CommandError::input(path, format!("is a directory; {option} takes a file")));
            }
            create(path).map_err(|error| CommandError::input(path, error))?;
        }
        match &self.svg {
            Some(directory) => fs::create_dir_all(directory).map_err(|error| CommandError::input(directory, error)),
            None => Ok(()),
        }
    }
}

/// Reads a report that `--save` has written.
pub fn read(path: &Path) -> Result<Report, CommandError> {
    let text = fs::read_to_string(path).map_err(|error| CommandError::input(path, error))?;
    Report::from_json(&text).map_err(|error| CommandError::input(path, error))
}

/// Writes all files, and prints the tables. A failure does not keep the rest from being written;
/// the first one is returned.
pub fn write(report: &Report, args: &OutputArgs) -> Result<(), CommandError> {
    let files = write_files(report, args);
    let printed = print(report, args);
    files.and(printed)
}

fn write_files(report: &Report, args: &OutputArgs) -> Result<(), CommandError> {
    let mut first = Ok(());
    let mut keep = |path: &Path, text: Result<String, CommandError>| {
        let written = text.and_then(|text| write_whole(path, &text).map_err(|error| CommandError::input(path, error)));
        if first.is_ok() {
            first = written;
        }
    };
    for (option, path) in args.files() {
        let text = match option {
            "--save" => report.to_json().map_err(|error| CommandError::input(path, error)),
            "--csv" => Ok(render::csv(report)),
            "--html" => Ok(render::html(report)),
            _ => Ok(render::markdown(report)),
        };
        keep(path, text);
    }
    if let Some(directory) = &args.svg {
        let made = fs::create_dir_all(directory).map_err(|error| CommandError::input(directory, error));
        match made {
            Ok(()) => render::svg(report).into_iter().for_each(|(name, svg)| keep(&directory.join(name), Ok(svg))),
            Err(failure) => keep(directory, Err(failure)),
        }
    }
    first
}

fn print(report: &Report, args: &OutputArgs) -> Result<(), CommandError> {
    let mut page = render::table_within(report, width_columns());
    if let Some(path) = &args.compare {
        page.push_str(&format!("\nSince {}:\n{}", path.display(), compare(&read(path)?, report)));
    }
    crate::printable::page(&page)
}

/// Returns the width of the terminal; a file is as wide as it needs to be.
fn width_columns() -> usize {
    match io::stdout().is_terminal() {
        true => terminal_size::terminal_size().map_or(80, |(width, _)| width.0.into()),
        false => render::WIDTH_COLUMNS,
    }
}

/// Writes a temporary file, and renames it when all of it is on the disk, so that the path has all
/// of it or its former contents.
fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let mut file = create(path)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// Creates a new file in the same directory, which is removed unless it becomes the path's.
fn create(path: &Path) -> io::Result<NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new();
    #[cfg(unix)] // as of any file: less what the umask says
    file.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    file.prefix(".hapax-").tempfile_in(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An empty directory, which is removed at the end.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Place {
            let path = std::env::temp_dir().join(format!("hapax-output-{}-{name}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Place(path)
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(&self.0).unwrap();
            let mut names: Vec<String> = entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn report() -> Report {
        read(Path::new("../hapax-bench/tests/integration/report/small.json")).unwrap()
    }

    #[test]
    fn all_is_written_and_read_again() {
        let place = Place::new("all");
        let at = |name: &str| Some(place.0.join(name));
        let args = OutputArgs {
            save: at("r.json"),
            csv: at("r.csv"),
            html: at("r.html"),
            markdown: at("r.md"),
            svg: at("charts"),
            compare: None,
            from: None,
        };
        args.check().unwrap();
        write_files(&report(), &args).unwrap();
        assert_eq!(place.names(), ["charts", "r.csv", "r.html", "r.json", "r.md"]);
        assert!(fs::read_dir(place.0.join("charts")).unwrap().count() > 0);
        assert_eq!(read(&place.0.join("r.json")).unwrap(), report());
        // The files are written again, over the existing ones.
        write_files(&report(), &args).unwrap();
        assert_eq!(place.names().len(), 5);
    }

    #[test]
    fn what_cannot_be_written_is_named_and_the_rest_is_written() {
        let place = Place::new("rest");
        let args = OutputArgs {
            csv: Some(place.0.join("absent/r.csv")),
            html: Some(place.0.join("r.html")),
            ..OutputArgs::default()
        };
        let message = |failure: CommandError| failure.message().unwrap_or_default().to_string();
        assert!(message(args.check().unwrap_err()).contains("absent/r.csv"));
        assert!(message(write_files(&report(), &args).unwrap_err()).contains("absent/r.csv"));
        assert_eq!(place.names(), ["r.html"]);
    }

    #[test]
    fn a_file_that_cannot_be_replaced_stays_and_nothing_is_left_beside_it() {
        let place = Place::new("replaced");
        fs::create_dir_all(place.0.join("r.html/full")).unwrap();
        assert!(write_whole(&place.0.join("r.html"), "text").is_err());
        assert_eq!(place.names(), ["r.html"]);
    }

    #[test]
    fn a_report_is_measured_no_more() {
        use crate::Args;
        use clap::{CommandFactory, Parser};
        let command = Args::command();
        let bench = command.find_subcommand("bench").unwrap();
        let from = bench.get_arguments().find(|arg| arg.get_id() == "from").unwrap();
        let refused: Vec<_> = bench.get_arg_conflicts_with(from).into_iter().map(|arg| arg.get_id()).collect();
        for arg in bench.get_arguments().filter(|arg| arg.get_help_heading() != Some("Where results go")) {
            let id = arg.get_id();
            assert!(refused.contains(&id) || id == "case", "--from and --{id}: one of them would be ignored");
        }
        let parsed = |options: &[&str]| {
            Args::try_parse_from(["hapax", "bench", "--from", "r.json"].iter().chain(options)).map_err(|e| e.kind())
        };
        assert!(parsed(&["--html", "r.html", "--compare", "old.json", "--save", "new.json"]).is_ok());
        for options in [&["--only", "x"][..], &["--quick"], &["ids.txt"], &["--duplicates", "0.1"], &["--list"]] {
            assert_eq!(parsed(options).unwrap_err(), clap::error::ErrorKind::ArgumentConflict, "{options:?}");
        }
    }

    #[test]
    fn two_outputs_have_two_names() {
        let same = Some(PathBuf::from("somewhere"));
        let args = OutputArgs { save: same.clone(), html: same, ..OutputArgs::default() };
        assert!(matches!(args.check(), Err(CommandError::Usage(text)) if text.contains("--save and --html")));
    }

    #[test]
    fn what_is_no_report_is_named() {
        let place = Place::new("none");
        for (text, expected) in [("{}", "format"), ("{\"format\": 7}", "newer"), ("", "not a report")] {
            let path = place.0.join("old.json");
            fs::write(&path, text).unwrap();
            let args = OutputArgs { compare: Some(path), ..OutputArgs::default() };
            let Err(CommandError::Io(message)) = args.check() else { panic!("{text} is a report") };
            assert!(message.contains("old.json") && message.contains(expected), "{message}");
        }
    }
}
