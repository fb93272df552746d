//! The choices of people: which record is kept, where the output goes, which files are meant, and
//! how the command speaks to them.

mod keep;
mod named;
mod null;
#[cfg(unix)]
mod replaced;
mod spoken;

use std::process::Output;

/// Returns the exit code, the output, and the errors.
fn said(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}
