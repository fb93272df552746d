//! Formats the command that repeats a comparison.

use crate::shell::quoted;
use std::path::Path;

/// Returns the command as it was given, for a shell, with the seed if it was random.
pub fn repeats(args: impl Iterator<Item = String>, seed: Option<u64>) -> String {
    let mut words: Vec<String> = args.collect();
    if let Some(program) = words.first_mut() {
        // The program's directory is of no interest elsewhere.
        let name = Path::new(&*program).file_name().map(|name| name.to_string_lossy().into_owned());
        *program = name.unwrap_or_else(|| "hapax".to_string());
    }
    if let Some(seed) = seed {
        // It goes after `bench`: behind a `--`, it would be a file.
        words.insert(words.len().min(2), format!("--seed={seed}"));
    }
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_can_be_pasted() {
        let words = ["/usr/bin/hapax", "bench", "--only", "Mutex<HashMap>", "it's.log", ""].map(str::to_string);
        let command = repeats(words.into_iter(), Some(17));
        assert_eq!(command, r"hapax bench --seed=17 --only 'Mutex<HashMap>' 'it'\''s.log' ''");
        assert_eq!(repeats(["hapax".to_string()].into_iter(), None), "hapax");
    }
}
