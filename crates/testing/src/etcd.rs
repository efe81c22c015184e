//! An etcd server of its own, in a temporary folder, for as long as the value lives.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::ports::free_port;

/// The variable that names the program.
const PROGRAM: &str = "TIDEMILL_ETCD";

/// Ends the server when its standard input closes, however this process ends.
const KEEPER: &str =
    r#""$0" "$@" >>"$LOG" 2>&1 & child=$!; echo started; cat >/dev/null; kill -9 $child; wait $child"#;

/// A running server.
pub struct Server {
    program: PathBuf,
    folder: TempDir,
    /// The port where it listens for clients on 127.0.0.1.
    pub port: u16,
    peer_port: u16,
    keeper: Option<Child>,
}

impl Server {
    /// Starts one; `None` if there is none on this machine.
    pub fn start() -> Option<Server> {
        let Some(program) = std::env::var_os(PROGRAM) else {
            eprintln!("skipped: {PROGRAM} does not name the program of etcd (Debian: etcd-server)");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let (port, peer_port) = (free_port(), free_port());
        let mut server = Server { program: program.into(), folder, port, peer_port, keeper: None };
        server.resume();
        Some(server)
    }

    /// Starts it again, with what it had.
    pub fn resume(&mut self) {
        let data = self.folder.path().join("data");
        let clients = format!("http://127.0.0.1:{}", self.port);
        let peers = format!("http://127.0.0.1:{}", self.peer_port);
        let mut keeper = Command::new("sh");
        keeper.arg("-c").arg(KEEPER).arg(&self.program).env("LOG", self.folder.path().join("log"));
        keeper.arg("--data-dir").arg(data).args(["--listen-client-urls", &clients]);
        keeper.args(["--advertise-client-urls", &clients, "--listen-peer-urls", &peers]);
        keeper.args(["--initial-advertise-peer-urls", &peers]);
        keeper.args(["--initial-cluster", &format!("default={peers}")]);
        let mut keeper =
            keeper.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut line).unwrap();
        self.keeper = Some(keeper);
        let end = Instant::now() + Duration::from_secs(120);
        while !self.is_healthy() {
            let log = || std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            assert!(Instant::now() < end, "etcd does not start:\n{}", log());
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn is_healthy(&self) -> bool {
        let ask = || {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
            stream.write_all(b"GET /health HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok::<_, std::io::Error>(answer)
        };
        ask().is_ok_and(|answer| answer.contains(r#""health":"true""#))
    }

    /// Kills it.
    pub fn crash(&mut self) {
        if let Some(mut keeper) = self.keeper.take() {
            drop(keeper.stdin.take());
            let _ = keeper.wait();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.crash();
    }
}
