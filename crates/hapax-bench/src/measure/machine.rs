//! The machine on which something is measured.

use super::Machine;
use std::process::Command;

impl Machine {
    /// Describes this machine, as far as its system tells. The caller adds the versions of
    /// libraries: a library does not know with which others a program was built.
    pub fn here() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        Machine {
            processor: processor(&read("/proc/cpuinfo")).unwrap_or(std::env::consts::ARCH).to_string(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory_bytes(&read("/proc/meminfo")),
            system: system(&read("/sys/kernel/mm/transparent_hugepage/enabled")),
            compiler: compiler().unwrap_or_else(|| "unknown".to_string()),
            libraries: Vec::new(),
        }
    }
}

fn processor(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, value)| value.trim())
}

fn memory_bytes(meminfo: &str) -> u64 {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|total| total.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.map_or(0, |kib| kib * 1024)
}

/// Returns kernel and architecture, and whether huge pages are available: programs that get them
/// are much faster.
fn system(huge_pages: &str) -> String {
    let uname = Command::new("uname").args(["-s", "-r", "-m"]).output();
    let name = uname
        .ok()
        .filter(|uname| uname.status.success())
        .map(|uname| String::from_utf8_lossy(&uname.stdout).trim().to_string());
    let name = name.unwrap_or_else(|| format!("{} {}", std::env::consts::OS, std::env::consts::ARCH));
    match huge_pages.split_once('[').and_then(|(_, rest)| rest.split_once(']')) {
        Some((mode, _)) => format!("{name}, huge pages: {mode}"),
        None => name,
    }
}

/// Returns the compiler that made this program. It writes its name into every object file, from
/// where linkers take it over. Cargo does not report it, and the one on the `PATH` may be another.
fn compiler() -> Option<String> {
    let program = std::fs::read(std::env::current_exe().ok()?).ok()?;
    compiler_in(&program)
}

fn compiler_in(program: &[u8]) -> Option<String> {
    const NAME: &[u8] = b"rustc version ";
    const LEN_MAX: usize = 80;
    let begins = memchr::memmem::find_iter(program, NAME).map(|at| at + NAME.len());
    begins.map(|begin| &program[begin..program.len().min(begin + LEN_MAX)]).find_map(|rest| {
        let text: String =
            rest.iter().map(|&byte| char::from(byte)).take_while(|c| c.is_ascii_graphic() || *c == ' ').collect();
        let is_version = text.split('.').take(2).all(|part| part.parse::<u32>().is_ok());
        // The text after its name is a number only in a note of the compiler, and not in our own
        // words.
        is_version.then(|| format!("rustc {text}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_tells_what_it_is() {
        assert_eq!(
            processor("processor\t: 0\nmodel name\t: A fine one: 2 GHz\nmodel name\t: B\n"),
            Some("A fine one: 2 GHz")
        );
        assert_eq!(processor("Processor: none\n"), None);
        assert_eq!(memory_bytes("MemFree: 3 kB\nMemTotal:       16 kB\n"), 16_384);
        assert_eq!((memory_bytes(""), memory_bytes("MemTotal: many\n")), (0, 0));
        assert!(system("always [madvise] never").ends_with(", huge pages: madvise"));
        assert!(!system("").contains("huge"));
    }

    #[test]
    fn the_compiler_is_the_one_that_made_the_program() {
        let program = b"\0rustc version , are our own words\0rustc version 1.95.0 (59807616e 2026-04-14)\0GCC: 13\0";
        assert_eq!(compiler_in(program).as_deref(), Some("rustc 1.95.0 (59807616e 2026-04-14)"));
        assert_eq!((compiler_in(b"rustc version "), compiler_in(b"")), (None, None));
    }
}
