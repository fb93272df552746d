//! What is measured, and what comes of it: both are handed between processes as text.

use std::fmt;
use std::str::FromStr;

/// A strategy under certain conditions.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    pub strategy: String,
    pub mode: Mode,
    pub setting: Setting,
    pub seed: u64,
}

/// The conditions under which strategies are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    pub live: usize,
    pub threads: usize,
    pub kind: Kind,
}

/// How ids are passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Single,
    Batched,
}

/// What ids are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    U64,
    Text,
}

impl Case {
    /// As arguments of a process.
    pub fn to_args(&self) -> [String; 6] {
        let Setting { live, threads, kind } = self.setting;
        let Case { strategy, mode, seed, .. } = self;
        [strategy.clone(), mode.to_string(), live.to_string(), threads.to_string(), kind.to_string(), seed.to_string()]
    }

    pub fn from_args(args: &[String]) -> Option<Self> {
        let [strategy, mode, live, threads, kind, seed] = args else { return None };
        let setting = Setting { live: live.parse().ok()?, threads: threads.parse().ok()?, kind: kind.parse().ok()? };
        let mode = if *mode == Mode::Batched.to_string() { Mode::Batched } else { Mode::Single };
        Some(Case { strategy: strategy.clone(), mode, setting, seed: seed.parse().ok()? })
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Mode::Single => "single",
            Mode::Batched => "batched",
        })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::U64 => "u64",
            Kind::Text => "text",
        })
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Kind::U64, Kind::Text]
            .into_iter()
            .find(|kind| kind.to_string() == text)
            .ok_or_else(|| format!("`{text}` is no kind of id: u64 or text"))
    }
}

macro_rules! measurement {
    ($($(#[$doc:meta])* $field:ident,)*) => {
        /// What one run of a case has shown.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct Measurement {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl fmt::Display for Measurement {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                $(write!(f, "{}={} ", stringify!($field), self.$field)?;)*
                Ok(())
            }
        }

        impl FromStr for Measurement {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let mut measurement = Measurement::default();
                for pair in text.split_whitespace() {
                    let (name, value) = pair.split_once('=').ok_or(text)?;
                    let value = value.parse().map_err(|_| text)?;
                    match name {
                        $(stringify!($field) => measurement.$field = value,)*
                        _ => return Err(text.into()),
                    }
                }
                Ok(measurement)
            }
        }
    };
}

measurement! {
    /// Wall time of all threads together.
    nanos,
    /// Checks of ids that were new.
    fresh,
    /// Those that were called duplicates.
    invented,
    /// Checks of ids that were not new.
    duplicates,
    /// Those that were called fresh.
    missed,
    /// Memory.
    bytes,
    /// Ids that this memory holds.
    held,
    /// Ids that went before their time, by the strategy's own count.
    evicted,
    /// Ids that were asked for at the end: of a window all those that must still be known, of a filter new ones.
    asked,
    /// Those that got the wrong answer.
    wrong,
}

impl Measurement {
    pub fn checks(&self) -> u64 {
        self.fresh + self.duplicates
    }

    pub fn nanos_per_id(&self) -> f64 {
        self.nanos as f64 / self.checks() as f64
    }
}
