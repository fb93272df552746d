//! Processes that do not outlive the one that has started them, however that ends.

use hapax_store::sync::lock;
use std::io;
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock};

type Order = (Command, Sender<io::Result<Child>>);

/// Starts a process. On Linux it is killed when this one ends, also where no destructor runs:
/// killed, aborted, or by `exit`.
///
/// Linux does that when the *thread* ends that has started it. A test's thread ends before a server
/// that other tests share, so one thread starts all, and ends with the process.
pub fn spawn(command: Command) -> io::Result<Child> {
    static STARTER: OnceLock<Mutex<Sender<Order>>> = OnceLock::new();
    let starter = STARTER.get_or_init(|| {
        let (orders, received) = channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, answer) in received {
                let _ = answer.send(start(&mut command));
            }
        });
        Mutex::new(orders)
    });
    let (answer, answered) = channel();
    let sent = lock(starter).send((command, answer));
    sent.expect("the thread that starts processes runs");
    answered.recv().expect("the thread that starts processes answers")
}

/// Starts a process, or panics with what it was and why it could not be started.
pub fn started(command: Command) -> Child {
    let name = format!("{command:?}");
    spawn(command).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[cfg(target_os = "linux")]
fn start(command: &mut Command) -> io::Result<Child> {
    use std::os::unix::process::CommandExt as _;
    let parent = std::process::id();
    let dies_with_us = move || {
        // SAFETY: two system calls without memory, which may be made between `fork` and `exec`.
        let (failed, of) =
            unsafe { (libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) != 0, libc::getppid()) };
        match () {
            _ if failed => Err(io::Error::last_os_error()),
            // It ended before it was asked for.
            _ if of as u32 != parent => Err(io::ErrorKind::NotFound.into()),
            _ => Ok(()),
        }
    };
    // SAFETY: it allocates nothing and takes no lock.
    unsafe { command.pre_exec(dies_with_us) };
    command.spawn()
}

#[cfg(not(target_os = "linux"))]
fn start(command: &mut Command) -> io::Result<Child> {
    command.spawn()
}
