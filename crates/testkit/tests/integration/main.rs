//! Checks that servers end with their tests.

#[cfg(target_os = "linux")]
mod left_behind;
