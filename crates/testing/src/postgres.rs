//! A PostgreSQL server of its own, in a temporary folder, for as long as this process lives.

use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::ports::free_port;

/// A running server.
pub struct Server {
    programs: PathBuf,
    /// The folder of its data and its log.
    pub folder: PathBuf,
    /// The port where it listens on 127.0.0.1.
    pub port: u16,
    /// When it closes, the server ends and its folder is removed.
    _alive: ChildStdin,
    _keeper: Child,
}

/// Ends the server when its standard input closes, however this process ends.
const KEEPER: &str = r#"cat >/dev/null; "$0" "$@" stop -m immediate >/dev/null 2>&1; rm -rf "$FOLDER""#;

fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let programs = versions.filter_map(|entry| Some(entry.ok()?.path().join("bin")));
    programs.filter(|programs| programs.join("initdb").exists()).max()
}

/// Returns whether this process runs as root.
pub fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
}

/// A program that may run as the server's user: the server refuses root.
fn command(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("runuser");
    command.args(["-u", "postgres", "--"]).arg(program);
    command
}

/// Runs a program that must succeed; returns its standard output.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

impl Server {
    /// Starts one; `None` if there is no server on this machine.
    pub fn start() -> Option<Server> {
        let Some(programs) = programs() else {
            eprintln!("skipped: there is no PostgreSQL server here (tests/postgres/install.sh)");
            return None;
        };
        let folder = tempfile::tempdir().unwrap().keep();
        if is_root() {
            run(Command::new("chown").arg("postgres").arg(&folder));
        }
        let data = folder.join("data");
        let mut initdb = command(&programs.join("initdb"));
        initdb.args(["--no-sync", "-A", "trust", "-U", "tidemill", "-E", "UTF8", "-D"]).arg(&data);
        run(initdb.current_dir("/"));
        let port = free_port();
        let settings = format!(
            "port = {port}\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = '{}'\nfsync = off\n\
             max_connections = 50\n",
            folder.display()
        );
        write_as_owner(&data.join("postgresql.auto.conf"), &settings);
        let rules = std::fs::read_to_string(data.join("pg_hba.conf")).unwrap();
        let rules = "host all guarded 127.0.0.1/32 scram-sha-256\n".to_owned() + &rules;
        write_as_owner(&data.join("pg_hba.conf"), &rules);
        let mut keeper = Command::new("sh");
        keeper.arg("-c").arg(KEEPER).env("FOLDER", &folder);
        let pg_ctl = command(&programs.join("pg_ctl"));
        keeper.arg(pg_ctl.get_program()).args(pg_ctl.get_args()).arg("-D").arg(&data);
        let mut keeper = keeper.stdin(Stdio::piped()).spawn().unwrap();
        let alive = keeper.stdin.take().unwrap();
        let server = Server { programs, folder, port, _alive: alive, _keeper: keeper };
        server.resume();
        Some(server)
    }

    /// Runs `pg_ctl` with these arguments.
    pub fn control(&self, arguments: &[&str]) {
        let mut pg_ctl = command(&self.programs.join("pg_ctl"));
        pg_ctl.arg("-D").arg(self.folder.join("data")).arg("-l").arg(self.folder.join("log")).arg("-w");
        let status = pg_ctl.args(arguments).current_dir("/").stdout(Stdio::null()).status().unwrap();
        let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        assert!(status.success(), "{log}");
    }

    /// Starts it again.
    pub fn resume(&self) {
        self.control(&["start"]);
    }

    /// Ends it as if it were killed.
    pub fn crash(&self) {
        self.control(&["stop", "-m", "immediate"]);
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("postgres://tidemill@127.0.0.1:{}/postgres", self.port)
    }

    /// What a statement answers, fields separated by `|`.
    pub fn query(&self, statement: &str) -> String {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args(["-AtX", "-v", "ON_ERROR_STOP=1", "-d", &self.url(), "-c", statement]);
        run(&mut psql).trim_end().to_owned()
    }

    /// Executes a statement at another server on this machine that speaks the same protocol.
    #[allow(dead_code, reason = "not every test has another server")]
    pub fn execute_at(&self, port: u16, statement: &str) {
        let url = format!("postgresql://me@127.0.0.1:{port}/tidemill");
        let mut psql = Command::new(self.programs.join("psql"));
        run(psql.args(["-AtX", "-v", "ON_ERROR_STOP=1", "-d", &url, "-c", statement]));
    }
}

/// Overwrites a file that is there, so that it keeps its owner.
pub fn write_as_owner(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}
