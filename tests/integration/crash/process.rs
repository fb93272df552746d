//! A process that reports what is durable, and dies.

use std::io::Write;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use testkit::random::Random;

/// The longest times that a child is left alive, in microseconds.
pub struct Life {
    /// From its start on: it is to die while it opens its files, too.
    pub from_start: u64,
    /// From its first report on, when it has come this much further at random: busy machines take
    /// longer for that.
    pub from_report: u64,
    pub progress: u64,
}

/// This program once more, as a child. It reports with lines `durable NUMBER … .`, the first number
/// of which says up to where all is durable.
pub struct Child {
    process: std::process::Child,
    reader: Option<JoinHandle<()>>,
    said: Arc<Mutex<Said>>,
}

#[derive(Clone, Default)]
struct Said {
    report: Vec<u64>,
    /// The panic with which it has ended, if it has.
    wrong: Option<String>,
}

/// Has a child say with which panic it ends.
pub fn say_what_is_wrong() {
    std::panic::set_hook(Box::new(|panic| {
        let text = panic.to_string().replace('\n', " ");
        let _ = writeln!(std::io::stdout(), "wrong {text}");
    }));
}

impl Child {
    /// Starts it, with these variables.
    pub fn start<'v>(variables: impl IntoIterator<Item = (&'v str, String)>) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "crash::child", "--nocapture"]).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.envs(variables).spawn().unwrap();
        let (output, said) = (process.stdout.take().unwrap(), Arc::new(Mutex::new(Said::default())));
        let latest = Arc::clone(&said);
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8(line).unwrap();
                // The point tells a line from one that is cut off.
                if let Some(numbers) = line.strip_prefix("durable ").and_then(|line| line.strip_suffix('.')) {
                    let numbers = numbers.split(' ').map(|number| number.parse().unwrap()).collect();
                    latest.lock().unwrap().report = numbers;
                }
                if let Some(wrong) = line.strip_prefix("wrong ") {
                    latest.lock().unwrap().wrong = Some(wrong.into());
                }
            }
        });
        Child { process, reader: Some(reader), said }
    }

    /// Waits for a random time. Returns true if that began with a report, so that something is
    /// durable, however busy the machine is.
    pub fn let_it_run(&self, random: &mut Random, life: &Life) -> bool {
        let waits = random.below(2) == 1;
        if waits {
            self.wait_for(1);
            self.wait_for(self.acknowledged() + random.below(life.progress + 1));
        }
        let longest_micros = if waits { life.from_report } else { life.from_start };
        std::thread::sleep(Duration::from_micros(random.below(longest_micros)));
        waits
    }

    /// Waits until it has come as far as children come.
    pub fn let_it_come_far(&self, life: &Life) {
        self.wait_for(1);
        self.wait_for(self.acknowledged() + life.progress);
    }

    /// Waits until it has acknowledged this much, or has ended by itself.
    fn wait_for(&self, acknowledged: u64) {
        let began = Instant::now();
        let has_ended = || self.reader.as_ref().is_none_or(JoinHandle::is_finished);
        while self.acknowledged() < acknowledged && !has_ended() {
            // A guard against hanging alone.
            assert!(began.elapsed() < Duration::from_secs(120), "it does not come to {acknowledged}");
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    fn said(&self) -> Said {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the numbers that it has reported last.
    pub fn report(&self) -> Vec<u64> {
        self.said().report
    }

    /// Returns up to where it has said so far that all is durable, or 0.
    pub fn acknowledged(&self) -> u64 {
        self.report().first().copied().unwrap_or(0)
    }

    /// Returns the panic with which it has ended by itself.
    pub fn wrong(&self) -> Option<String> {
        self.said().wrong
    }

    /// Kills it. Returns up to where it has said that all is durable.
    pub fn kill(&mut self) -> u64 {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        self.acknowledged()
    }
}

impl Drop for Child {
    /// Leaves no process behind when a check panics.
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
