//! `tidemill serve`: a server for clients of PostgreSQL, and of HTTP.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tidemill_connect::tls::{TlsServer, TlsServerSettings};
use tidemill_engine::{MemoryBudget, WorkerProcess};
use tidemill_server::{HttpOptions, HttpServer, OtlpExporter, RecentLog, Server, ServerOptions};
use tidemill_service::{FileCatalogLog, QueryState, Runtime};
use tidemill_sql::GatewayPlace;

use super::database::{CATALOGUE, COSTS, JOURNAL};
use super::{SessionOptions, gateway, open_files, parse_memory};
use crate::exit::Exit;
use crate::interrupt::StopLimits;
use crate::{interrupt, terminal};

/// Readers may hold a part of what the queries that run may hold: the one divided by this.
const READERS_SHARE: u64 = 4;
/// The niceness of clients.
const READERS_NICE: u8 = 10;
/// How often the command looks whether it is asked to end.
const LOOK: Duration = Duration::from_millis(20);
/// How often memory is given back that has been free for some minutes.
const GIVE_BACK_EVERY: Duration = Duration::from_secs(10);
/// How long queries may take to end before the command says which it waits for.
const QUIET_END: Duration = Duration::from_secs(3);
/// How often it says so again.
const TOLD_EVERY: Duration = Duration::from_secs(30);

/// Serve clients of PostgreSQL, such as psql: definitions, queries, views that run
#[derive(Debug, clap::Args)]
#[command(after_help = exit_codes!())]
pub(crate) struct Serve {
    /// Where definitions and journals are kept; it is made if it does not exist
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// The address for clients; one that other machines reach needs users and encryption
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:5433")]
    listen: SocketAddr,
    /// The address for metrics, status and the console by HTTP, as --listen; off: none
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8087")]
    http: HttpAddress,
    /// A collector of OpenTelemetry that gets the metrics by HTTP, such as http://127.0.0.1:4318
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,
    /// How often it gets them
    #[arg(long, value_name = "TIME", default_value = "10 s", value_parser = interrupt::parse_time, requires = "otlp")]
    otlp_every: Duration,
    /// The most sessions at a time
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..))]
    connections: u16,
    /// Let clients define sinks that start programs, with the rights of this process
    #[arg(long)]
    allow_commands: bool,
    /// A PEM file with the server's certificate, and those of the authorities behind it: clients may then ask for
    /// encryption, and those of other machines must; HTTP becomes HTTPS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// A PEM file with the key of the certificate, which nobody else may read
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// A PEM file with authorities: each client must show a certificate that one of them has issued
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_ca: Option<PathBuf>,
    /// Serve other machines even without users or encryption: who can reach the addresses can do everything
    #[arg(long)]
    insecure: bool,
    /// Memory that queries over views and tables may hold, and rows that wait for clients, beside --memory, such as '1 GB'
    /// [default: a quarter of --memory]
    #[arg(long, value_name = "SIZE", value_parser = parse_memory)]
    readers_memory: Option<u64>,
    /// How much clients leave the processors to queries that run by name, from 0 (they are as urgent) to 19: with 10 they get a
    /// tenth of what such a query gets that wants the same processor
    #[arg(long, value_name = "N", default_value_t = READERS_NICE, value_parser = clap::value_parser!(u8).range(..=19))]
    readers_nice: u8,
    /// How long the server may take to end in order when it is asked to, such as '30 s'; then it ends at once [default: 50 s]
    #[arg(long, value_name = "TIME", value_parser = interrupt::parse_time)]
    stop_within: Option<Duration>,
    #[command(flatten)]
    options: SessionOptions,
}

/// An address for HTTP, or none.
#[derive(Clone, Copy, Debug)]
struct HttpAddress(Option<SocketAddr>);

impl FromStr for HttpAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<HttpAddress, String> {
        match text {
            "off" => Ok(HttpAddress(None)),
            address => match address.parse() {
                Ok(address) => Ok(HttpAddress(Some(address))),
                Err(_) => Err("give an address with its port, such as 127.0.0.1:8087, or off".to_owned()),
            },
        }
    }
}

/// Where HTTP is served, for people.
pub(super) fn where_http_is(http: &HttpServer) -> String {
    let address = http.address();
    let scheme = http.scheme();
    format!("the console is on {scheme}://{address}, metrics on {scheme}://{address}/metrics")
}

impl Serve {
    pub(crate) fn run(&self, log: Option<RecentLog>) -> anyhow::Result<Exit> {
        let mut planner = self.options.planner();
        let settings = planner.settings_mut();
        let readers = self.readers_memory.unwrap_or(settings.memory.limit() / READERS_SHARE);
        settings.readers_niceness = self.readers_nice;
        settings.readers_memory = Some(MemoryBudget::of_readers(readers));
        if !self.allow_commands {
            planner.refuse_sink(
                "command",
                "a server starts no programs for its clients; start it with --allow-commands to permit it",
            );
        }
        // Before anything is opened: a process of a query of another process.
        if let Some(member) = WorkerProcess::from_environment()? {
            return Ok(super::run_member(planner, member));
        }
        open_files::permit(self.connections)?;
        let stop = interrupt::flag_within(StopLimits::of_server(self.stop_within), "the server")?;
        // It answers that it is not ready while the queries are being started.
        let tls = self.tls()?;
        let of_http =
            HttpOptions { is_insecure: self.insecure, tls: tls.clone(), log, ..HttpOptions::default() };
        let http = self.http.0.map(|address| HttpServer::start(address, of_http)).transpose()?;
        let definitions = FileCatalogLog::open(&self.data.join(CATALOGUE))?;
        let journal = self.data.join(JOURNAL);
        planner.settings_mut().journal = Some(journal.clone());
        planner.settings_mut().cost_profiles = Some(self.data.join(COSTS));
        planner.settings_mut().gateways = GatewayPlace::Elsewhere;
        let runtime = Runtime::open_journaled(planner, Box::new(definitions), &journal)?;
        runtime.start_gateways(gateway::gateways(&self.data, self.readers_nice, &self.options)?);
        for failed in runtime.catalog().failed_definitions() {
            terminal::tell(&format!("a definition has no effect: {}", failed.reason));
        }
        for (name, state) in runtime.queries() {
            if state == QueryState::Stopped {
                terminal::tell(&format!("query '{name}' is stopped; START continues it"));
            }
            if let (QueryState::Failed, Err(cause)) = (state, runtime.wait_for(&name, Duration::ZERO)) {
                terminal::tell(&format!("query '{name}' is not running: {cause}"));
            }
        }
        let options = ServerOptions {
            connections_max: self.connections.into(),
            is_insecure: self.insecure,
            tls,
            release_memory: Some(tidemill_allocator::release),
            ..ServerOptions::default()
        };
        let server = Server::start(&runtime, self.listen, options)?;
        let address = server.address();
        terminal::tell(&format!(
            "the server accepts PostgreSQL clients on {address}; definitions are in {}\n  psql -h {} -p {}",
            self.data.display(),
            address.ip(),
            address.port(),
        ));
        if let Some(http) = &http {
            http.serve(&runtime)?;
            terminal::tell(&where_http_is(http));
        }
        let otlp = self.otlp.as_ref().map(|collector| {
            terminal::tell(&format!("metrics go to {collector} every {:?}", self.otlp_every));
            OtlpExporter::start(&runtime, collector, self.otlp_every)
        });
        let otlp = otlp.transpose()?;
        terminal::tell("Ctrl-C ends the server cleanly");
        let mut given_back = Instant::now();
        while !stop.load(Ordering::SeqCst) {
            std::thread::sleep(LOOK);
            if given_back.elapsed() >= GIVE_BACK_EVERY {
                tidemill_allocator::give_back();
                given_back = Instant::now();
            }
        }
        terminal::tell("the server is shutting down");
        server.stop();
        drop(http);
        close(&runtime);
        drop(otlp);
        Ok(Exit::Done)
    }
}

impl Serve {
    /// How encryption is offered, if it is.
    fn tls(&self) -> anyhow::Result<Option<Arc<TlsServer>>> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else { return Ok(None) };
        let mut settings = TlsServerSettings::new(certificate, key);
        settings.client_authorities.clone_from(&self.tls_ca);
        Ok(Some(Arc::new(TlsServer::open(settings)?)))
    }
}

/// Ends all queries in order. They run again when the server starts again.
fn close(runtime: &Runtime) {
    let mut waiting = runtime.close(QUIET_END);
    while !waiting.is_empty() {
        terminal::tell(&format!(
            "waiting for these queries to commit what they have taken in: {}; Ctrl-C ends the server at once",
            waiting.join(", ")
        ));
        waiting = runtime.close(TOLD_EVERY);
    }
}
