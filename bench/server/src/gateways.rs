//! Blue Danube's measurement on one machine: gateways, each a process of its own that reads, journals and stores what it is sent,
//! and how long their cycles take. A view over all gateways is checked first, against plain loops over the rows.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::value_parser;
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::clients::connect;
use crate::feed::Feed;
use crate::program_beside;
use crate::reports::{Report, report};
use crate::server_process::ServerProcess;

/// Sessions of a run, with some more for those who look.
const SESSIONS: usize = 8;
/// What a gateway needs beside the rows that it keeps.
const MEMORY_BYTES: u64 = 512 << 20;
/// Nothing takes so long, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(120);
/// The side of the boxes that are asked for.
const BOX: u64 = 30_000;

/// Measure the cycles of gateways: 1, 2 and 4 of them, each with its rows in 1 and in 2 fragments
#[derive(Debug, clap::Args)]
pub struct GatewayArguments {
    /// The program `tidemill`; without it, the one beside this program.
    #[arg(long)]
    pub server: Option<std::path::PathBuf>,
    /// Rows that come in per second, at all gateways together.
    #[arg(long, default_value_t = 400_000, value_parser = value_parser!(u64).range(1000..))]
    pub rate: u64,
    /// Numbers of gateways.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4")]
    pub gateways: Vec<usize>,
    /// Numbers of fragments in each gateway.
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    pub fragments: Vec<usize>,
    /// Cars that report in turn at each gateway.
    #[arg(long, default_value_t = 100_000, value_parser = value_parser!(u64).range(100..=10_000_000))]
    pub cars: u64,
    /// How much each gateway keeps, in MiB.
    #[arg(long, default_value_t = 512, value_parser = value_parser!(u64).range(8..=1_000_000))]
    pub stored_mib: u64,
    /// How long each measurement takes.
    #[arg(long, default_value_t = 20, value_parser = value_parser!(u64).range(1..=3600))]
    pub seconds: u64,
    /// Rows are journaled before their cycle begins.
    #[arg(long)]
    pub durable: bool,
    /// Few rows, and a moment for each measurement: checks that it works, and measures nothing.
    #[arg(long)]
    pub quick: bool,
}

/// One measurement.
#[derive(Clone, Copy)]
struct Case {
    gateways: usize,
    fragments: usize,
    rate: u64,
    cars: u64,
    stored_bytes: u64,
    seconds: f64,
    is_durable: bool,
}

/// Measures all cases, and prints a line for each gateway.
///
/// # Errors
/// If an answer is wrong, rows are missing, or the server cannot be started.
pub fn measure_gateways(arguments: &GatewayArguments) -> anyhow::Result<()> {
    let program = program_beside(arguments.server.as_deref())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    println!(
        "rows in {}, {} processors\n",
        if arguments.durable { "a journal and in memory" } else { "memory" },
        thread::available_parallelism().map_or(1, usize::from)
    );
    println!(
        "| gateways | fragments | rows/s | gateway | cycles | mean ms | p50 | p99 | maximum | largest mean of 1,000 |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for gateways in &arguments.gateways {
        for fragments in &arguments.fragments {
            let case = arguments.case(*gateways, *fragments);
            // The first server is checked, and the cycles of another one are measured.
            runtime.block_on(run(&program, &Case { seconds: 0.0, ..case }))?;
            runtime.block_on(run(&program, &case))?;
        }
    }
    Ok(())
}

impl GatewayArguments {
    fn case(&self, gateways: usize, fragments: usize) -> Case {
        let is_durable = self.durable;
        if self.quick {
            Case {
                gateways,
                fragments,
                rate: 4000,
                cars: 200,
                stored_bytes: 16 << 20,
                seconds: 0.5,
                is_durable,
            }
        } else {
            Case {
                gateways,
                fragments,
                rate: self.rate,
                cars: self.cars,
                stored_bytes: self.stored_mib << 20,
                seconds: self.seconds as f64,
                is_durable,
            }
        }
    }
}

async fn run(program: &Path, case: &Case) -> anyhow::Result<()> {
    let server = ServerProcess::start(program, SESSIONS, MEMORY_BYTES + 2 * case.stored_bytes, None)?;
    let owner = connect(server.address()).await?;
    owner.batch_execute(&definitions(case)).await?;
    let connect = |gateway| Feed::connect(&server.folder().join(socket(gateway)), case.cars);
    let feeds = (0..case.gateways).map(connect).collect::<anyhow::Result<Vec<Feed>>>()?;
    if case.seconds == 0.0 {
        feeds.iter().try_for_each(|feed| feed.send(3 * case.cars))?;
        wait_for_rows(&owner, &feeds).await?;
        check(&owner, case).await?;
    } else {
        send(&feeds, case)?;
        wait_for_rows(&owner, &feeds).await?;
        print_cycles(&owner, case, &feeds).await?;
    }
    server.stop()
}

fn socket(gateway: usize) -> String {
    format!("reports{gateway}.sock")
}

fn definitions(case: &Case) -> String {
    let source = |gateway: usize| {
        format!(
            "CREATE SOURCE reports{gateway} (vid BIGINT NOT NULL, at TIMESTAMP NOT NULL, x DOUBLE, y DOUBLE,
                 speed DOUBLE, lane BIGINT, WATERMARK FOR at AS at)
                 WITH (connector = 'unix', listen = '{}', format = 'csv', header = false, timestamp_unit = 'us',
                     ordered = true, durable = {}, gateway = 'g{gateway}');\n",
            socket(gateway),
            case.is_durable,
        )
    };
    let part = |gateway: usize| format!("SELECT *, {gateway} AS gate FROM reports{gateway}");
    let all = 0..case.gateways;
    let divided = match case.fragments {
        1 => String::new(),
        several => format!(", fragments = {several}"),
    };
    format!(
        "{}CREATE MATERIALIZED VIEW recent WITH (retain_bytes = '{} B', key = 'vid', point = 'x, y'{divided}) AS {}",
        all.clone().map(source).collect::<String>(),
        case.stored_bytes,
        all.map(part).collect::<Vec<_>>().join(" UNION ALL "),
    )
}

/// Sends to all gateways at the same time, at the rate of all together.
fn send(feeds: &[Feed], case: &Case) -> anyhow::Result<()> {
    let end = AtomicBool::new(false);
    let rate = case.rate / feeds.len() as u64;
    thread::scope(|scope| {
        let sending: Vec<_> =
            feeds.iter().map(|feed| scope.spawn(|| feed.send_at_rate(rate, &end))).collect();
        thread::sleep(Duration::from_secs_f64(case.seconds));
        end.store(true, Ordering::Relaxed);
        sending.into_iter().try_for_each(|sender| sender.join().expect("a sender does not panic"))
    })
}

/// Waits until each gateway has stored as many rows as it was sent: neither more nor fewer.
async fn wait_for_rows(owner: &Client, feeds: &[Feed]) -> anyhow::Result<()> {
    let start = Instant::now();
    let sent: Vec<u64> = feeds.iter().map(Feed::sent).collect();
    loop {
        let rows = gateway_rows(owner).await?;
        let entered: Vec<u64> = rows.iter().map(|row| row.number(2)).collect();
        // The times of reports count them, so the newest one says that all are stored.
        let newest = "SELECT CAST(round(extract(epoch FROM max(at)) * 1000000) AS BIGINT) AS n
            FROM recent GROUP BY gate ORDER BY gate";
        let stored: Vec<u64> =
            owner.query(newest, &[]).await?.iter().map(|row| row.get::<_, i64>(0) as u64 + 1).collect();
        if entered == sent && stored == sent {
            return Ok(());
        }
        let is_late = start.elapsed() > PATIENCE;
        ensure!(!is_late, "{sent:?} rows were sent, {entered:?} have entered and {stored:?} can be read");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// What the view answers is what loops over all rows of all gateways answer.
async fn check(owner: &Client, case: &Case) -> anyhow::Result<()> {
    let all: Vec<Report> = (0..3 * case.cars).map(|number| report(case.cars, number)).collect();
    let times = case.gateways as i64;
    let is = async |query: String, expected: i64| {
        let found: i64 = owner.query_one(&query, &[]).await?.get(0);
        ensure!(found == expected, "{query} gives {found}, and not {expected}");
        anyhow::Ok(())
    };
    is("SELECT count(*) AS n FROM recent".into(), times * all.len() as i64).await?;
    let speeds: u64 = all.iter().map(|report| report.speed).sum();
    is("SELECT CAST(sum(speed) AS BIGINT) AS n FROM recent".into(), times * speeds as i64).await?;
    for number in 0..20 {
        let vid = number * case.cars / 20;
        let path = all.iter().filter(|report| report.vid == vid);
        let found = path.clone().count() as i64;
        is(format!("SELECT count(*) AS n FROM recent WHERE vid = {vid}"), times * found).await?;
        let (x, y) = (number * 20_000, number % 10 * 1000);
        let is_inside =
            |report: &&Report| (x..=x + BOX).contains(&report.x) && (y..=y + 500).contains(&report.y);
        let inside = all.iter().filter(is_inside).count() as i64;
        let query = format!(
            "SELECT count(*) AS n FROM recent WHERE x BETWEEN {x} AND {} AND y BETWEEN {y} AND {}",
            x + BOX,
            y + 500
        );
        is(query, times * inside).await?;
    }
    Ok(())
}

/// A row of `SHOW GATEWAYS`.
struct GatewayRow(Vec<String>);

impl GatewayRow {
    fn number(&self, column: usize) -> u64 {
        self.0[column].parse().unwrap_or(0)
    }
}

/// What the gateways say, in the order of their names.
async fn gateway_rows(owner: &Client) -> anyhow::Result<Vec<GatewayRow>> {
    let messages = owner.simple_query("SHOW GATEWAYS").await?;
    let row = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => {
            let value = |column| row.get(column).unwrap_or_default().to_owned();
            Some(GatewayRow((0..row.len()).map(value).collect()))
        }
        _ => None,
    };
    let mut rows: Vec<GatewayRow> = messages.iter().filter_map(row).collect();
    rows.sort_by(|one, other| one.0[0].cmp(&other.0[0]));
    Ok(rows)
}

async fn print_cycles(owner: &Client, case: &Case, feeds: &[Feed]) -> anyhow::Result<()> {
    let rows = gateway_rows(owner).await?;
    ensure!(rows.len() == feeds.len(), "{} of {} gateways say something", rows.len(), feeds.len());
    for (row, feed) in rows.iter().zip(feeds) {
        ensure!(row.number(2) == feed.sent(), "{} rows of {} have entered", row.number(2), feed.sent());
        let [.., gateway, _] = row.0.as_slice() else { anyhow::bail!("SHOW GATEWAYS has other columns") };
        let rate = feed.sent() as f64 / case.seconds;
        let times = row.0.get(5..11).context("SHOW GATEWAYS has other columns")?.join(" | ");
        println!("| {} | {} | {rate:.0} | {gateway} | {times} |", case.gateways, case.fragments);
    }
    Ok(())
}
