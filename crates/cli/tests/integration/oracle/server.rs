//! A server that is killed.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::Duration;

use super::client::Client;
use crate::support::child::signal;
use crate::support::tidemill;

/// `tidemill serve` over a folder. It is killed when it is dropped.
pub struct Server {
    folder: PathBuf,
    options: &'static [&'static str],
    child: Child,
    port: Arc<AtomicU16>,
}

impl Server {
    pub fn start(folder: &Path, options: &'static [&'static str]) -> Server {
        let port = Arc::new(AtomicU16::new(0));
        let child = start(folder, options, &port);
        Server { folder: folder.to_owned(), options, child, port }
    }

    /// Ends it by a signal.
    pub fn end_by(&mut self, name: &str) {
        self.port.store(0, Ordering::SeqCst);
        signal(&self.child, name);
        self.child.wait().expect("it ends");
    }

    /// Starts it again over the same folder, and kills it so long after that.
    pub fn start_and_kill(&mut self, after: Duration) {
        let mut command = command(&self.folder, self.options);
        let mut child = command.stderr(Stdio::null()).spawn().expect("it starts");
        thread::sleep(after);
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
    }

    /// Starts it again over the same folder.
    pub fn restart(&mut self) {
        self.child = start(&self.folder, self.options, &self.port);
    }

    /// Where it listens; 0 while it does not run.
    pub fn port(&self) -> Arc<AtomicU16> {
        Arc::clone(&self.port)
    }

    pub fn connect(&self) -> Client {
        Client::connect(self.port.load(Ordering::SeqCst)).expect("it accepts clients")
    }

    /// The bytes of memory that belong to its process.
    pub fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(folder: &Path, options: &[&str]) -> Command {
    let arguments = ["serve", "--data", "tides", "--listen", "127.0.0.1:0"];
    let without_http = if options.contains(&"--http") { &[][..] } else { &["--http", "off"][..] };
    let mut command = tidemill(folder, &[&arguments[..], without_http, options].concat());
    command.stdout(Stdio::null());
    command
}

fn start(folder: &Path, options: &[&str], port: &AtomicU16) -> Child {
    let mut child = command(folder, options).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stderr.take().expect("it is piped"));
    let mut line = String::new();
    while !line.contains("accepts PostgreSQL clients") {
        line.clear();
        assert!(lines.read_line(&mut line).expect("it writes text") > 0, "the server ends");
        assert!(!line.contains("does not run"), "{line}");
    }
    let (_, rest) = line.split_once("127.0.0.1:").expect("an address");
    let number = rest.split(';').next().and_then(|number| number.trim().parse().ok());
    port.store(number.expect("a port"), Ordering::SeqCst);
    // Nothing that it writes may hold it up.
    thread::spawn(move || {
        let lines = lines.lines().map_while(Result::ok);
        lines.filter(|line| !line.contains("came too late")).for_each(|line| println!("server: {line}"));
    });
    child
}
