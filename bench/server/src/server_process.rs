//! A server as its users start it: `tidemill serve`, a process of its own.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use tempfile::TempDir;

/// Far more than an end in order takes.
const END: Duration = Duration::from_secs(120);

/// A server with a folder of its own. Dropping it kills it.
pub struct ServerProcess {
    child: Child,
    folder: TempDir,
    address: SocketAddr,
    http: SocketAddr,
}

impl ServerProcess {
    /// Starts it on free ports.
    pub fn start(
        program: &Path,
        sessions_max: usize,
        memory_bytes: u64,
        readers_nice: Option<u8>,
    ) -> anyhow::Result<ServerProcess> {
        let folder = tempfile::tempdir()?;
        let mut command = Command::new(program);
        command.args(["serve", "--data", "data", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
        command.args(["--connections", &sessions_max.to_string(), "--memory", &format!("{memory_bytes} B")]);
        command.args(readers_nice.iter().flat_map(|nice| ["--readers-nice".to_owned(), nice.to_string()]));
        command.current_dir(folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        let Some(told) = child.stderr.take() else { bail!("the server has no standard error") };
        let mut told = BufReader::new(told);
        let addresses =
            (address_after(&mut told, "clients on "), address_after(&mut told, "console is on http://"));
        // What it says later is nobody's business, but it must not wait until somebody reads it.
        thread::spawn(move || drop(std::io::copy(&mut told, &mut std::io::sink())));
        match addresses {
            (Ok(address), Ok(http)) => Ok(ServerProcess { child, folder, address, http }),
            (Err(error), _) | (_, Err(error)) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where relative paths of its definitions begin.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its metrics, in Prometheus's format.
    pub fn metrics(&self) -> anyhow::Result<String> {
        let mut stream = TcpStream::connect(self.http)?;
        stream.set_read_timeout(Some(END))?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        ensure!(text.starts_with("HTTP/1.1 200"), "no metrics: {text}");
        Ok(text)
    }

    /// The memory that it has now, in bytes; 0 where the kernel does not tell.
    pub fn memory_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kib.unwrap_or(0) * 1024
    }

    /// Asks it to end, and waits until it has ended in order.
    pub fn stop(mut self) -> anyhow::Result<()> {
        let kill = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status()?;
        ensure!(kill.success(), "the server cannot be asked to end");
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                ensure!(status.success(), "the server has ended with {status}");
                return Ok(());
            }
            ensure!(start.elapsed() < END, "the server does not end");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The address behind these words, in the next line that has them.
fn address_after(told: &mut impl BufRead, words: &str) -> anyhow::Result<SocketAddr> {
    let mut all = String::new();
    loop {
        let mut line = String::new();
        if told.read_line(&mut line)? == 0 {
            bail!("the server has not started: {all}");
        }
        if let Some((_, rest)) = line.split_once(words) {
            let address = rest.split([';', ',', '/']).next().unwrap_or_default().trim();
            return address.parse().with_context(|| format!("no address: {line}"));
        }
        all += &line;
    }
}
