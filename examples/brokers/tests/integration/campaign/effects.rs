//! The effects of consumers, outside of them: a file, or a table of bookings.

use rusqlite::Connection;
use std::collections::{BTreeMap, HashSet};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::time::Duration;

pub trait Effects {
    /// Returns how many ids have had their effect.
    fn count(&mut self) -> usize;

    /// Returns how many effects there were.
    fn total(&mut self) -> usize;

    /// Returns those of these ids that had none.
    fn missing(&mut self, ids: &[String]) -> Vec<String>;

    /// Has all work fail, or no longer.
    fn away(&self, is_away: bool);

    /// Has poison succeed, or fail again.
    fn healed(&self, is_healed: bool);

    fn is_exactly_once(&self) -> bool {
        false
    }
}

/// The ledger of the examples, of which each look reads what is new.
pub struct Ledger {
    path: PathBuf,
    read: u64,
    counts: BTreeMap<String, usize>,
}

impl Ledger {
    pub fn new(path: String) -> Self {
        Ledger { path: path.into(), read: 0, counts: BTreeMap::new() }
    }

    fn look(&mut self) {
        let Ok(mut file) = std::fs::File::open(&self.path) else { return };
        let mut text = String::new();
        file.seek(SeekFrom::Start(self.read)).expect("a place in the ledger");
        file.read_to_string(&mut text).expect("a ledger");
        // (The last line may not be whole.)
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        self.read += whole as u64;
        for line in text[..whole].lines() {
            let (id, _token) = line.rsplit_once(' ').expect("an id and a token");
            *self.counts.entry(id.to_owned()).or_default() += 1;
        }
    }

    fn set(&self, name: &str, is_there: bool) {
        let path = self.path.with_extension(name);
        if is_there {
            std::fs::write(path, "").expect("a file");
        } else if path.exists() {
            std::fs::remove_file(path).expect("no file");
        }
    }
}

impl Effects for Ledger {
    fn count(&mut self) -> usize {
        self.look();
        self.counts.len()
    }

    fn total(&mut self) -> usize {
        self.look();
        self.counts.values().sum()
    }

    fn missing(&mut self, ids: &[String]) -> Vec<String> {
        self.look();
        ids.iter().filter(|id| !self.counts.contains_key(*id)).cloned().collect()
    }

    fn away(&self, is_away: bool) {
        self.set("away", is_away);
    }

    fn healed(&self, is_healed: bool) {
        self.set("healed", is_healed);
    }
}

/// The bookings of Kafka's example, in the transaction that marks their ids.
pub struct Bookings(Connection);

impl Bookings {
    pub fn new(database: &str) -> Self {
        let books = Connection::open(database).expect("a database");
        books.busy_timeout(Duration::from_secs(60)).expect("a time-out");
        let bookings = Bookings(books);
        bookings.execute("PRAGMA journal_mode = WAL; CREATE TABLE bookings (payment TEXT NOT NULL)");
        bookings.healed(false);
        bookings
    }

    fn execute(&self, sql: &str) {
        self.0.execute_batch(sql).expect("a change of the database");
    }

    fn number(&self, what: &str) -> usize {
        let number = self.0.query_row(&format!("SELECT {what} FROM bookings"), (), |row| row.get::<_, u32>(0));
        number.expect("a number") as usize
    }

    fn refuses(&self, trigger: &str, when: &str, is_there: bool) {
        self.execute(&format!("DROP TRIGGER IF EXISTS {trigger}"));
        if is_there {
            let begin = format!("CREATE TRIGGER {trigger} BEFORE INSERT ON bookings {when}");
            self.execute(&format!("{begin} BEGIN SELECT RAISE(ABORT, '{trigger}'); END"));
        }
    }
}

impl Effects for Bookings {
    fn count(&mut self) -> usize {
        self.number("count(DISTINCT payment)")
    }

    fn total(&mut self) -> usize {
        self.number("count(*)")
    }

    fn missing(&mut self, ids: &[String]) -> Vec<String> {
        let mut select = self.0.prepare("SELECT payment FROM bookings").expect("a statement");
        let booked: rusqlite::Result<HashSet<String>> = select.query_map((), |row| row.get(0)).expect("rows").collect();
        let booked = booked.expect("bookings");
        ids.iter().filter(|id| !booked.contains(*id)).cloned().collect()
    }

    fn away(&self, is_away: bool) {
        self.refuses("away", "", is_away);
    }

    fn healed(&self, is_healed: bool) {
        self.refuses("refuses", "WHEN NEW.payment LIKE 'p %'", !is_healed);
    }

    fn is_exactly_once(&self) -> bool {
        true
    }
}
