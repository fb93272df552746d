//! Huge pages for every strategy, or for none.
//!
//! A table far larger than what the TLB maps is much faster on huge pages. Ours asks for them;
//! others' memory comes from malloc, which asks for them only if it is told to. So a comparison in
//! which each has what it asks for compares pages, too.

use crate::error::CommandError;
use std::process::Command;

/// The strategies whose memory is on huge pages, where the system gives them on request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum HugePages {
    /// All: glibc's malloc asks for them, as hapax does
    All,
    /// None: nobody gets any
    None,
}

/// The tunable by which glibc's malloc (2.35 or later) asks for huge pages.
const TUNABLE: &str = "glibc.malloc.hugetlb=1";

impl HugePages {
    /// Withholds huge pages from this process, and from those that it starts from now on, if nobody
    /// is to have them.
    pub fn withhold(self) -> Result<(), CommandError> {
        if self == HugePages::All {
            return Ok(());
        }
        #[cfg(target_os = "linux")]
        return rustix::thread::disable_transparent_huge_pages(true).map_err(|error| {
            CommandError::Io(format!("--huge-pages none: the system goes on giving huge pages: {error}"))
        });
        #[cfg(not(target_os = "linux"))]
        return Err(CommandError::Usage("--huge-pages none: they are withheld on Linux only".to_string()));
    }

    /// Tells malloc of a process that is started.
    pub fn tell(self, command: &mut Command) {
        if self == HugePages::All {
            command.env("GLIBC_TUNABLES", tunables(std::env::var("GLIBC_TUNABLES").ok()));
        }
    }

    /// Describes whose memory is on them, for the conditions of a report.
    pub fn described(self) -> &'static str {
        match self {
            HugePages::All if cfg!(all(target_os = "linux", target_env = "gnu")) => "asked for by all",
            HugePages::All => "asked for by hapax alone",
            HugePages::None => "withheld from all",
        }
    }
}

/// Returns the tunables of a process: those that the user has set, and ours, which counts if it is
/// there twice, since it comes last.
fn tunables(users: Option<String>) -> String {
    users.filter(|users| !users.is_empty()).map_or(TUNABLE.to_string(), |users| format!("{users}:{TUNABLE}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tunables_of_the_user_are_kept() {
        assert_eq!(tunables(None), TUNABLE);
        assert_eq!(tunables(Some(String::new())), TUNABLE);
        let users = "glibc.malloc.arena_max=1".to_string();
        assert_eq!(tunables(Some(users)), "glibc.malloc.arena_max=1:glibc.malloc.hugetlb=1");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn processes_that_are_started_get_none_if_they_are_withheld() {
        let gets_them = || {
            let status = Command::new("cat").arg("/proc/self/status").output().unwrap().stdout;
            String::from_utf8(status).unwrap().lines().any(|line| line == "THP_enabled:\t1")
        };
        HugePages::None.withhold().unwrap();
        assert!(!gets_them());
        rustix::thread::disable_transparent_huge_pages(false).unwrap();
        HugePages::All.withhold().unwrap();
        assert!(gets_them());
    }
}
