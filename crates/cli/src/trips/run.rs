//! `tidemill trips run`.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use clap::Args;
use tidemill_engine::Cause;
use tidemill_trip_grouping::bench::PERIOD_S;
use tidemill_trip_grouping::criteria::Criteria;
use tidemill_trip_grouping::partitioner::{PartitionerPlan, Partitioning};
use tidemill_trip_grouping::ride_run::RideRunOptions;
use tidemill_trip_grouping::run::{RunOptions, RunSummary, run};
use tidemill_trip_grouping::savings::Savings;
use tidemill_trip_grouping::trip_file::read_all;

use super::bad_lines::bad_lines;
use super::criteria::CriteriaArguments;
use super::rides;
use super::same_file::is_same_file;
use super::shown_table::ShownTable;
use crate::exit::Exit;
use crate::quantity::{count, counted, short, time};
use crate::{interrupt, linear_road, terminal};

/// Group the requests of a file into shares: those that one ride serves
///
/// With --offers, people with cars take others along: a car leaves as soon as somebody is found whose detour its owner
/// accepts. Requests need not be served.
///
/// Shows each hour of the day once its shares are made, and a summary at the end. Bad lines are counted and left out. The
/// file may be compressed with zstd; `-` is standard input.
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Examples:\n  tidemill trips run --input requests.csv\n  tidemill trips run --input requests.csv --partition akd \
     --groups 16 --out shares.csv\n  tidemill trips run --input requests.csv --offers offers.csv --out rides.csv\n\n",
    exit_codes!()
))]
pub(crate) struct RunArguments {
    /// File of requests, in the order of their times; see `tidemill trips generate`
    #[arg(long, value_name = "FILE")]
    input: PathBuf,
    /// File for the shares, a line for each request; replaced if it exists
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Folder for pictures, created if it does not exist: a map of the shares of each hour, as SVG
    #[arg(long, value_name = "DIR")]
    pictures: Option<PathBuf>,
    /// File of offers of rides, in the order of their times: people with cars take others along
    #[arg(long, value_name = "FILE", conflicts_with_all = ["max_share", "min_savings", "order"])]
    offers: Option<PathBuf>,
    /// How requests are divided into groups that know nothing of each other: none, rr (in turn), spq and skd (point quad
    /// and k-d tree, from an earlier day), apq and akd (the same, from the last ten minutes), sparse and weighed (akd, cut
    /// where requests are sparse)
    #[arg(long, value_name = "NAME", default_value = "akd")]
    partition: Partitioning,
    /// Number of groups [default: 16, or 1 without a partitioning]
    #[arg(long, value_name = "N")]
    groups: Option<u32>,
    /// Seconds of requests that adaptive borders are computed from, every ten minutes; with more, borders move less
    #[arg(long, value_name = "S", default_value_t = PERIOD_S,
        value_parser = clap::value_parser!(i64).range(1..=86_400))]
    recent: i64,
    /// File of an earlier day's requests, for spq and skd
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// Worker threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = linear_road::parse_workers)]
    workers: Option<usize>,
    #[command(flatten)]
    criteria: CriteriaArguments,
}

impl RunArguments {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        if let (Some(out), Some(history)) = (&self.out, &self.history)
            && is_same_file(out, history)
        {
            let out = out.display();
            let message =
                format!("{out} is an input (--history), and --out would overwrite it; choose another file");
            return Err(Cause::user(message).into());
        }
        match self.offers.clone() {
            Some(offers) => rides::run(self.ride_options(offers)?),
            None => self.run_shares(),
        }
    }

    fn run_shares(self) -> anyhow::Result<Exit> {
        let options = self.options()?;
        let stop = interrupt::flag()?;
        let mut table = ShownTable::new(row(HEADINGS));
        let show = |hour, savings: &Savings| table.show(&hour_row(&format!("{hour}:00"), savings));
        let summary = run(&options, &stop, show)?;
        table.finish()?;
        terminal::show(&text(&summary, &options))?;
        Ok(if summary.stopped { Exit::Interrupted } else { Exit::Done })
    }

    fn options(self) -> anyhow::Result<RunOptions> {
        let criteria = self.criteria.criteria();
        criteria.check().map_err(|error| Cause::user(error.to_string()).with_source(error))?;
        let (partitioner, workers) = (self.partitioner()?, self.workers());
        let RunArguments { input, out, pictures, .. } = self;
        Ok(RunOptions { input, out, pictures, workers, partitioner, criteria })
    }

    fn ride_options(self, offers: PathBuf) -> anyhow::Result<RideRunOptions> {
        let (partitioner, workers) = (self.partitioner()?, self.workers());
        let cycle_s = self.criteria.criteria().cycle;
        let RunArguments { input: requests, out, pictures, .. } = self;
        Ok(RideRunOptions { requests, offers, out, pictures, workers, partitioner, cycle_s })
    }

    fn workers(&self) -> usize {
        let available = || thread::available_parallelism().map_or(1, usize::from);
        self.workers.unwrap_or_else(available)
    }

    fn partitioner(&self) -> anyhow::Result<PartitionerPlan> {
        let is_whole = self.partition == Partitioning::Unpartitioned;
        let groups = self.groups.unwrap_or(if is_whole { 1 } else { 16 });
        let history = match &self.history {
            Some(path) => read_all(path)?.0,
            None => Vec::new(),
        };
        let plan = PartitionerPlan::new(self.partition, groups, PERIOD_S, &history).map_err(|error| {
            let remedy = if self.partition.is_static() && history.is_empty() {
                "; name its file with --history (tidemill trips generate --seed 8 makes one)"
            } else {
                ""
            };
            Cause::user(format!("{error}{remedy}")).with_source(error)
        })?;
        Ok(plan.with_history(self.recent))
    }
}

const HEADINGS: [&str; 7] = ["hour", "requests", "shares", "alone", "saved", "per request", "waited"];

fn row(cells: [&str; 7]) -> String {
    let [hour, requests, shares, alone, saved, per_request, waited] = cells;
    format!("{hour:>7} {requests:>9} {shares:>8} {alone:>8} {saved:>8} {per_request:>12} {waited:>8}")
}

fn hour_row(hour: &str, savings: &Savings) -> String {
    let percent = |part: f64| format!("{:.1} %", 100.0 * part);
    row([
        hour,
        &count(savings.requests),
        &count(savings.shares),
        &count(savings.alone),
        &percent(savings.of_distance()),
        &percent(savings.per_request()),
        &format!("{:.0} s", savings.waited_mean()),
    ])
}

fn text(summary: &RunSummary, options: &RunOptions) -> String {
    let total = summary.total();
    let elapsed = Duration::from_nanos(summary.status.elapsed_ns);
    let Criteria { max_share, min_savings, .. } = options.criteria;
    let mut text = hour_row("all", &total);
    text += &format!(
        "\n\n{}: {} in {}, {} requests/s, {} of up to {max_share} people who each save at least {:.0} %; \
         nobody waited longer than {} s",
        if summary.stopped { "stopped" } else { "done" },
        counted(total.requests, "request"),
        time(elapsed),
        short(total.requests as f64 / elapsed.as_secs_f64().max(1e-9)),
        counted(total.shares, "share"),
        100.0 * min_savings,
        total.waited_max,
    );
    if options.criteria.savings_max() < min_savings {
        text += &format!(
            "\nnote: in a share of {max_share} nobody can save more than {:.0} %, so nobody shares",
            100.0 * options.criteria.savings_max()
        );
    }
    text += &bad_lines(&summary.bad_lines);
    if let Some(out) = &options.out {
        text += &format!("\nshares are in {}", out.display());
    }
    if let Some(folder) = &options.pictures {
        text += &format!("\npictures are in {}", folder.display());
    }
    text
}
