//! Two machines, so to say, with a router between: network namespaces of Linux. What is sent while
//! they are apart is lost in silence, and the kernel sends it again, as over a real network; a
//! proxy cannot do that.

use crate::skipped::skipped;
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

/// Namespaces that end with this, also by a panic.
pub struct Namespaces {
    client: String,
    router: String,
    server: String,
}

/// The server's address.
pub const SERVER: &str = "10.99.2.2";

impl Namespaces {
    /// Creates them; none where that cannot be done, which is said.
    pub fn new() -> Option<Namespaces> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let unique = format!("hapax-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let [client, router, server] = ["c", "r", "s"].map(|part| format!("{unique}-{part}"));
        let made = Namespaces { client, router, server };
        if !made.set_up() {
            skipped("partitions of a network: namespaces cannot be made (as root; Debian: iproute2)");
            return None;
        }
        Some(made)
    }

    fn set_up(&self) -> bool {
        let Namespaces { client, router, server } = self;
        let lines = format!(
            "netns add {client}\nnetns add {router}\nnetns add {server}\n\
             link add cr netns {client} type veth peer name rc netns {router}\n\
             link add sr netns {server} type veth peer name rs netns {router}\n\
             -n {client} addr add 10.99.1.2/24 dev cr\n-n {router} addr add 10.99.1.1/24 dev rc\n\
             -n {server} addr add {SERVER}/24 dev sr\n-n {router} addr add 10.99.2.1/24 dev rs\n\
             -n {client} link set cr up\n-n {router} link set rc up\n-n {router} link set rs up\n\
             -n {server} link set sr up\n-n {server} link set lo up\n\
             -n {client} route add default via 10.99.1.1\n-n {server} route add default via 10.99.2.1"
        );
        lines.lines().all(ip) && self.routes(true)
    }

    /// Lets packets through in both directions, or none; then nobody is told.
    pub fn are_apart(&self, apart: bool) {
        assert!(self.routes(!apart), "the router takes a setting");
    }

    fn routes(&self, does: bool) -> bool {
        let set = format!("echo {} > /proc/sys/net/ipv4/ip_forward", u8::from(does));
        let status = Command::new("ip").args(["netns", "exec", &self.router, "sh", "-c", &set]).status();
        status.is_ok_and(|status| status.success())
    }

    /// Returns the command that runs a program on the server's machine.
    pub fn on_server(&self, program: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.server]).args(program);
        command
    }

    /// Moves this thread to the client's machine: the sockets that it creates are there.
    pub fn move_to_client(&self) {
        let namespace = File::open(format!("/run/netns/{}", self.client)).expect("a namespace");
        // SAFETY: a system call about this thread, with a descriptor that is open.
        let moved = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) };
        assert_eq!(moved, 0, "{}", std::io::Error::last_os_error());
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in [&self.client, &self.router, &self.server] {
            ip(&format!("netns del {name}"));
        }
    }
}

fn ip(line: &str) -> bool {
    let output = Command::new("ip").args(line.split(' ')).output();
    output.is_ok_and(|output| output.status.success())
}
