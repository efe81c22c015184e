//! Questions over PostgreSQL's protocol, from few clients and from many, while rows come in.
//!
//! A server is started as its users start it, as a process of its own. The answers are checked first, against plain loops over
//! the rows; a wrong one ends the run. Then the views are filled, rows come in at a rate, and clients ask as fast as they
//! are answered. At last come the clients that nobody wants: one that stops reading, a query that wants all memory, one
//! session too many. Each has to get an error that says what is wrong, while the stream continues.

mod answers;
mod check;
mod clients;
mod feed;
mod gateways;
mod load;
mod metrics;
mod questions;
mod reports;
mod server_process;
mod setup;
mod unwanted;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, ensure};
use clap::value_parser;

use clients::connect;
use feed::Feed;
pub use gateways::{GatewayArguments, measure_gateways};
use load::Load;
use questions::{KINDS, Kind};
use server_process::ServerProcess;

/// Measure how long questions take over PostgreSQL's protocol while rows come in, and what the stream notices of it
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The program `tidemill`; without it, the one beside this program.
    #[arg(long)]
    pub server: Option<PathBuf>,
    /// Rows that come in per second while clients ask.
    #[arg(long, default_value_t = 1_000_000, value_parser = value_parser!(u64).range(1000..))]
    pub rate: u64,
    /// How much the view of all reports keeps, in MiB.
    #[arg(long, default_value_t = 1024, value_parser = value_parser!(u64).range(8..=1_000_000))]
    pub stored_mib: u64,
    /// Cars that report in turn.
    #[arg(long, default_value_t = 100_000, value_parser = value_parser!(u64).range(1000..=10_000_000))]
    pub cars: u64,
    /// Numbers of clients that ask, one measurement for each.
    #[arg(long, value_delimiter = ',', default_value = "0,1,8,100,1000")]
    pub clients: Vec<usize>,
    /// Only questions whose names have one of these in them, as in `Q8,nearest`; by default all.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub questions: Vec<String>,
    /// How long each measurement takes.
    #[arg(long, default_value_t = 10, value_parser = value_parser!(u64).range(1..=3600))]
    pub seconds: u64,
    /// How much the server's sessions leave the processors to the stream; as the server does by default.
    #[arg(long, value_name = "N")]
    pub readers_nice: Option<u8>,
    /// How much the clients, which are on other machines as a rule, leave the processors to the server.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub clients_nice: u8,
    /// Few rows, and a moment for each measurement: checks that it works, and measures nothing.
    #[arg(long)]
    pub quick: bool,
}

/// The sizes of a run.
struct Sizes {
    rate: u64,
    stored_bytes: u64,
    cars: u64,
    clients: Vec<usize>,
    kinds: Vec<Kind>,
    seconds: f64,
    clients_nice: u8,
}

impl Sizes {
    fn load<'a>(&self, clients: usize, kinds: &'a [Kind]) -> Load<'a> {
        let Sizes { rate, seconds, clients_nice, .. } = *self;
        Load { clients, kinds, rate, seconds, clients_nice }
    }

    /// The memory of the server: what the views keep, and as much again for questions.
    fn memory_bytes(&self) -> u64 {
        2 * self.stored_bytes + (512 << 20)
    }
}

impl Arguments {
    fn kinds(&self) -> Vec<Kind> {
        let is_wanted = |name: &str| {
            self.questions.is_empty() || self.questions.iter().any(|wanted| name.contains(wanted.as_str()))
        };
        KINDS.iter().filter(|(_, name)| is_wanted(name)).map(|(kind, _)| *kind).collect()
    }

    fn sizes(&self) -> Sizes {
        let kinds = self.kinds();
        if self.quick {
            Sizes {
                rate: 5000,
                stored_bytes: 16 << 20,
                cars: 1000,
                clients: vec![0, 2, 100],
                kinds,
                seconds: 1.0,
                clients_nice: self.clients_nice,
            }
        } else {
            Sizes {
                rate: self.rate,
                stored_bytes: self.stored_mib << 20,
                cars: self.cars,
                clients: self.clients.clone(),
                kinds,
                seconds: self.seconds as f64,
                clients_nice: self.clients_nice,
            }
        }
    }
}

/// The program `tidemill` at this path; `None`: the one beside this program.
fn program_beside(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    let program = match named {
        Some(program) => program.to_owned(),
        None => std::env::current_exe()?.with_file_name("tidemill"),
    };
    let context = || format!("{} is not there; build it, or name it with --server", program.display());
    program.canonicalize().with_context(context)
}

/// So many rows are sent at once while the views are filled. A view that falls behind by more than the source keeps would stop.
const FILL_ROWS: u64 = 500_000;

/// Measures, and prints tables while it continues.
///
/// # Errors
/// If an answer is wrong, a client that nobody wants gets no error or another one, or the server cannot be started.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let sizes = arguments.sizes();
    ensure!(!sizes.kinds.is_empty(), "no question has such a name; there are Q1 to Q9, and 'nearest'");
    let most = sizes.clients.iter().copied().max().unwrap_or(0);
    check_open_files(most)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    // Some more, for those who look and for those who are unwanted.
    let server = ServerProcess::start(
        &program_beside(arguments.server.as_deref())?,
        most + setup::OTHER_SESSIONS,
        sizes.memory_bytes(),
        arguments.readers_nice,
    )?;
    runtime.block_on(measure(&sizes, &server))?;
    server.stop()
}

async fn measure(sizes: &Sizes, server: &ServerProcess) -> anyhow::Result<()> {
    let owner = connect(server.address()).await?;
    std::fs::write(server.folder().join(setup::LANES_FILE), setup::lanes())?;
    setup::define(&owner, sizes.stored_bytes).await?;
    setup::fill_accounts(&owner, sizes.cars).await?;
    let feed = Arc::new(Feed::connect(&server.folder().join(setup::SOCKET), sizes.cars)?);
    feed.send(sizes.cars * check::TURNS)?;
    setup::wait_for_rows(&owner, feed.sent()).await?;
    check::check(&owner, sizes.cars, feed.sent()).await?;
    println!("answers: all questions answer like a loop over all rows, now and as of earlier cycles");
    let stored = sizes.stored_bytes / setup::ROW_BYTES;
    while feed.sent() < stored {
        feed.send(FILL_ROWS.min(stored - feed.sent()))?;
        setup::wait_for_rows(&owner, feed.sent()).await?;
    }
    println!(
        "\n{} reports of {} cars were sent; {} rows/s wanted, {} s each, clients with niceness {}, {} processors",
        feed.sent(),
        sizes.cars,
        sizes.rate,
        sizes.seconds,
        sizes.clients_nice,
        std::thread::available_parallelism().map_or(1, usize::from),
    );
    for clients in &sizes.clients {
        println!("\n{clients} clients");
        sizes.load(*clients, &sizes.kinds).run(server, &feed)?.print(sizes.seconds);
    }
    println!("\npoint reads: the last position of a car by key");
    for clients in sizes.clients.iter().filter(|clients| **clients > 0) {
        println!("\n{clients} clients");
        sizes.load(*clients, &[Kind::LastPosition]).run(server, &feed)?.print(sizes.seconds);
    }
    println!("\nclients that nobody wants, while {} rows/s come in", sizes.rate);
    unwanted::meet(server, &feed, sizes.rate).await?;
    ensure!(
        setup::states(&owner).await?.iter().all(|state| state == "running"),
        "a view does not run any more"
    );
    Ok(())
}

/// Each client is an open file of this process.
fn check_open_files(clients: usize) -> anyhow::Result<()> {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find(|line| line.starts_with("Max open files"));
    let most = line.and_then(|line| line.split_whitespace().nth(3)?.parse::<usize>().ok());
    let needed = clients + 100;
    ensure!(
        most.is_none_or(|most| most >= needed),
        "{clients} clients need {needed} open files, and this process may have {}: ulimit -n {needed}",
        most.unwrap_or_default()
    );
    Ok(())
}
