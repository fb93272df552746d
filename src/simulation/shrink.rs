//! The shrinking of a sequence that fails to a short one that does.

use super::config::Config;
use super::op::Sequence;

/// Removes operations, and then options, as long as the sequence still fails: delta debugging
/// (Zeller and Hildebrandt, 2002).
pub(super) fn shrink(sequence: &Sequence, fails: impl Fn(&Sequence) -> bool) -> Sequence {
    let mut least = sequence.clone();
    loop {
        let before = least.clone();
        least = with_fewer_ops(least, &fails);
        for simpler in simpler(&least.config) {
            let tried = Sequence { config: simpler, ops: least.ops.clone() };
            if fails(&tried) {
                least = tried;
            }
        }
        if least == before {
            return least;
        }
    }
}

fn with_fewer_ops(mut least: Sequence, fails: &impl Fn(&Sequence) -> bool) -> Sequence {
    let mut size = least.ops.len().div_ceil(2);
    while size > 0 {
        let mut start = 0;
        while start < least.ops.len() {
            let end = (start + size).min(least.ops.len());
            let ops = [&least.ops[..start], &least.ops[end..]].concat();
            let tried = Sequence { config: least.config, ops };
            if fails(&tried) { least = tried } else { start = end }
        }
        size /= 2;
    }
    least
}

fn simpler(config: &Config) -> Vec<Config> {
    vec![
        Config { history: None, ..*config },
        Config { long: None, ..*config },
        Config { checkpoints: false, ..*config },
        Config { refresh: false, ..*config },
        Config { deferred: false, ..*config },
        Config { lateness: None, ..*config },
        Config { window_secs: 10, ..*config },
    ]
}
