//! Errors of the server and of the connection, by kind.

use super::reply::Refusal;
use hapax_store::{ErrorKind, StoreError};
use std::io;

/// The backend's name.
pub(crate) const BACKEND: &str = "redis";

/// Creates an error of this backend.
pub(crate) fn error(kind: ErrorKind, what: impl Into<String>) -> StoreError {
    StoreError::new(kind, BACKEND, what)
}

/// Returns the error for a server's refusal.
pub(crate) fn refused(refusal: Refusal<'_>) -> StoreError {
    error(kind_of(refusal.code(), refusal.details()), format!("the server answered {refusal}"))
}

/// Returns the error for the failure of an established connection. The server may have carried out
/// the request.
pub(crate) fn failed(cause: io::Error, what: &str) -> StoreError {
    let kind = match cause.kind() {
        io::ErrorKind::TimedOut => ErrorKind::Timeout,
        io::ErrorKind::InvalidData if !is_of_tls(&cause) => ErrorKind::Corrupt,
        _ => ErrorKind::Unavailable,
    };
    StoreError::caused(kind, BACKEND, what, cause)
}

/// Returns true for an error of the encryption. By TLS 1.3, a server that refuses a client's
/// certificate says so when the connection counts as established.
fn is_of_tls(cause: &io::Error) -> bool {
    #[cfg(feature = "tls")]
    if cause.get_ref().is_some_and(|cause| cause.is::<tokio_rustls::rustls::Error>()) {
        return true;
    }
    let _ = cause;
    false
}

/// Returns the error for a connection that could not be made. The server has done nothing.
pub(crate) fn not_connected(cause: io::Error, what: String) -> StoreError {
    let kind = match cause.kind() {
        io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput => ErrorKind::Misconfigured,
        _ => ErrorKind::Unavailable,
    };
    StoreError::caused(kind, BACKEND, what, cause)
}

/// Returns the error for a connection that could not be authenticated or checked: no request was
/// sent over it.
pub(crate) fn handshake_failed(why: StoreError, address: &str) -> StoreError {
    match why.kind() {
        ErrorKind::Timeout => {
            StoreError::caused(ErrorKind::Unavailable, BACKEND, format!("no connection to {address}"), why)
        }
        _ => why,
    }
}

/// Returns the kind of a server's error, by its code.
fn kind_of(code: &str, details: &str) -> ErrorKind {
    match code {
        "LOADING" | "CLUSTERDOWN" | "TRYAGAIN" | "MASTERDOWN" | "READONLY" | "OOM" | "BUSY" | "MISCONF"
        | "NOREPLICAS" | "MOVED" | "ASK" | "UNKILLABLE" | "UNBLOCKED" => ErrorKind::Unavailable,
        "WRONGTYPE" => ErrorKind::Corrupt,
        "ERR" if details.contains("max number of clients") => ErrorKind::Unavailable,
        // Only a script that has changed nothing can be killed.
        "ERR" if details.starts_with("Script killed by user") => ErrorKind::Unavailable,
        _ => ErrorKind::Misconfigured,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::reply::{Reply, read};

    #[test]
    fn errors_have_the_kind_that_says_whether_to_ask_again() {
        for (code, details, kind) in [
            ("LOADING", "Redis is loading the dataset in memory", ErrorKind::Unavailable),
            ("READONLY", "You can't write against a read only replica.", ErrorKind::Unavailable),
            ("UNBLOCKED", "force unblock from blocking operation", ErrorKind::Unavailable),
            ("OOM", "command not allowed when used memory > 'maxmemory'.", ErrorKind::Unavailable),
            ("ERR", "max number of clients reached", ErrorKind::Unavailable),
            ("ERR", "syntax error", ErrorKind::Misconfigured),
            ("NOAUTH", "Authentication required.", ErrorKind::Misconfigured),
            ("NOPERM", "this user has no permissions", ErrorKind::Misconfigured),
            ("WRONGTYPE", "Operation against a key", ErrorKind::Corrupt),
        ] {
            assert_eq!(kind_of(code, details), kind, "{code} {details}");
        }
    }

    /// Literal replies, recorded from servers: of 6.2.14 those with `@user_script` (6.0.16 has the
    /// same), of 7.0.15 the others.
    #[test]
    fn what_a_script_ran_into_has_the_kind_that_it_has_outside_of_scripts() {
        use ErrorKind::{Corrupt, Misconfigured, Unavailable};
        const CALL: &str = "ERR Error running script (call to f_ccd4717eca7788e74764e5a1a758ad0073f9b46c): ";
        const AT: &str = "script: ccd4717eca7788e74764e5a1a758ad0073f9b46c, on @user_script:38.";
        for (reply, code, kind) in [
            ("OOM command not allowed when used memory > 'maxmemory'.", "OOM", Unavailable),
            ("NOREPLICAS Not enough good replicas to write.", "NOREPLICAS", Unavailable),
            ("READONLY You can't write against a read only replica.", "READONLY", Unavailable),
            ("MISCONF Redis is configured to save RDB snapshots, but it's currently", "MISCONF", Unavailable),
        ] {
            check(reply, code, kind);
            check(&format!("{reply} {AT}"), code, kind);
            check(&format!("@user_script: 11: -{reply}"), code, kind);
            check(&format!("{CALL}@user_script:38: @user_script: 38: -{reply}"), code, kind);
        }
        let wrong = "WRONGTYPE Operation against a key holding the wrong kind of value";
        for reply in [wrong, &format!("{wrong} {AT}"), &format!("{CALL}@user_script:38: {wrong}")] {
            check(reply, "WRONGTYPE", Corrupt);
        }
        let denied = "The user executing the script can't run this command or subcommand";
        check(&format!("ERR {denied} {AT}"), "ERR", Misconfigured);
        check(&format!("@user_script: 11: {denied}"), "ERR", Misconfigured);
        check(&format!("{CALL}@user_script:8: @user_script: 8: {denied}"), "ERR", Misconfigured);
        let killed = "Script killed by user with SCRIPT KILL...";
        check(&format!("ERR {killed} {AT}"), "ERR", Unavailable);
        check(&format!("{CALL}@user_script:1: {killed}"), "ERR", Unavailable);
        for (reply, code, kind) in [
            (
                "NOPERM this user has no permissions to access one of the keys used as arguments",
                "NOPERM",
                Misconfigured,
            ),
            ("BUSY Redis is busy running a script. You can only call SCRIPT KILL", "BUSY", Unavailable),
            ("LOADING Redis is loading the dataset in memory", "LOADING", Unavailable),
            (
                "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
                "MASTERDOWN",
                Unavailable,
            ),
            ("NOSCRIPT No matching script. Please use EVAL.", "NOSCRIPT", Misconfigured),
            // What others have written into a text decides nothing.
            ("ERR unknown command '@user_script: 1: -OOM'", "ERR", Misconfigured),
        ] {
            check(reply, code, kind);
        }
    }

    #[track_caller]
    fn check(reply: &str, code: &str, kind: ErrorKind) {
        let bytes = format!("-{reply}\r\n");
        let Some(Reply::Refusal(refusal)) = read(bytes.as_bytes()) else { panic!("{reply} is a refusal") };
        assert_eq!((refusal.code(), refused(refusal).kind()), (code, kind), "{reply}");
    }

    #[test]
    fn a_lost_connection_is_unavailable_and_no_answer_is_a_timeout() {
        let io = io::Error::from;
        assert_eq!(failed(io(io::ErrorKind::TimedOut), "").kind(), ErrorKind::Timeout);
        assert_eq!(failed(io(io::ErrorKind::BrokenPipe), "").kind(), ErrorKind::Unavailable);
        assert_eq!(failed(io(io::ErrorKind::InvalidData), "").kind(), ErrorKind::Corrupt);
        // No request was sent yet.
        assert_eq!(not_connected(io(io::ErrorKind::TimedOut), String::new()).kind(), ErrorKind::Unavailable);
        assert_eq!(handshake_failed(error(ErrorKind::Timeout, "late"), "here").kind(), ErrorKind::Unavailable);
    }
}
