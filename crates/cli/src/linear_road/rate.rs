//! `tidemill linear-road rate`.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tidemill_engine::{Counter, CyclePolicy};
use tidemill_linear_road::InputSplit;
use tidemill_linear_road::answers::{KIND_NAMES, LIMITS_S};
use tidemill_linear_road::rating::memory::{self, MemoryBudget};
use tidemill_linear_road::rating::search::{SearchEvent, SearchOptions, search};
use tidemill_linear_road::rating::{BaseGroup, BaseOptions, Pace, RatingError, TrialOptions, TrialResult};

use crate::exit::Exit;
use crate::{interrupt, quantity, terminal};

/// Memory that is left to the system and to data in flight.
const MEMORY_RESERVE_BYTES: u64 = 2 << 30;

/// The overhead of allocation on the state of a clone: 8 % were measured at 1000 and 2000 expressways.
const ALLOCATION_OVERHEAD: f64 = 1.1;

/// Find this machine's L-rating: the most expressways served in real time
///
/// Runs a few expressways once through the minutes before the window, clones their state with shifted ids to L
/// expressways, then replays the window at its true rates. The driver and the encoding of the answers run on the same
/// cores. One copy in --check-every is checked in full. Short trials search for L; a final trial of full length
/// confirms it.
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Examples:\n  tidemill linear-road rate\n  tidemill linear-road rate --from 100 --minutes 1 --trial-seconds 5\n",
    "  tidemill linear-road rate --only 2000 --minutes 2\n\n",
    exit_codes!()
))]
pub(crate) struct Rate {
    /// Worker threads [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = super::parse_workers)]
    workers: Option<usize>,
    /// Number of expressways to generate; the others are copies of them
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    base: u16,
    /// Seed of the generated traffic
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Minutes to run before the window
    #[arg(long, value_name = "N", default_value_t = 170, value_parser = clap::value_parser!(u16).range(1..=179))]
    minutes_before: u16,
    /// Length of the window in minutes, in the final trial
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=179))]
    minutes: u16,
    /// Length of each search trial in seconds
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..))]
    trial_seconds: u16,
    /// Number of expressways at which the search starts
    #[arg(long, value_name = "L", default_value_t = 1024, value_parser = clap::value_parser!(u16).range(1..))]
    from: u16,
    /// Maximum number of expressways to try [default: as many as fit into memory]
    #[arg(long, value_name = "L", value_parser = clap::value_parser!(u16).range(1..))]
    to: Option<u16>,
    /// Try only this many expressways, rounded up to a multiple of --base, instead of searching
    #[arg(long, value_name = "L", conflicts_with_all = ["from", "to"],
        value_parser = clap::value_parser!(u16).range(1..=65_000))]
    only: Option<u16>,
    /// Stop searching when the rating is known to within this fraction
    #[arg(long, value_name = "SHARE", default_value_t = 0.03,
        value_parser = parse_precision, allow_negative_numbers = true)]
    precision: f64,
    /// Check one of every N copies of the base group in full
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..))]
    check_every: u16,
    /// How often per second the driver delivers due events
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    ticks_per_second: u16,
    /// How inputs are split: parasplit (on every worker), fsplit (one splitter), exptree (a tree of splitters), or auto (the engine
    /// chooses while it runs)
    #[arg(long, value_name = "PLAN", default_value_t)]
    split: InputSplit,
}

fn parse_precision(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if share > 0.0 && share < 1.0 => Ok(share),
        _ => Err("it must be greater than 0 and less than 1, such as 0.03".to_owned()),
    }
}

impl Rate {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        if self.minutes_before + self.minutes > 180 {
            let text = "a run has 180 minutes; --minutes-before and --minutes must not exceed that together";
            return Err(RatingError::Options(text.into()).into());
        }
        let stop = interrupt::flag()?;
        let workers =
            self.workers.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()));
        let base = self.prepare(workers)?;
        let budget = MemoryBudget::of(&base);
        let options = SearchOptions {
            from: self.only().unwrap_or(self.from),
            to: self.most(&base, &budget)?,
            precision: self.precision,
            trial_seconds: self.trial_seconds.into(),
            final_seconds: usize::from(self.minutes) * 60,
            is_search: self.only.is_none(),
            trial: TrialOptions {
                expressways: 0,
                workers,
                seconds: 0,
                pace: Pace::Real,
                ticks_per_second: self.ticks_per_second.into(),
                check_every: self.check_every,
                cycles: CyclePolicy::default(),
                split: self.split,
                stop: Arc::clone(&stop),
            },
        };
        let mut trials = Trials::default();
        let rating = match search(&base, &options, |event| trials.tell(event)) {
            Ok(rating) => rating,
            Err(RatingError::Interrupted) => return Ok(Exit::Interrupted),
            Err(error) => return Err(error.into()),
        };
        match rating {
            Some(result) => {
                let text = self.headline(&result) + &report(&result, workers, &budget);
                terminal::show(&text)?;
                Ok(if result.is_valid() { Exit::Done } else { Exit::Differences })
            }
            None => {
                terminal::show("None of the numbers of expressways tried was served in time.")?;
                Ok(Exit::Differences)
            }
        }
    }

    /// Only a search over the last ten minutes of a run finds a rating.
    fn headline(&self, result: &TrialResult) -> String {
        let is_hardest_part = self.minutes >= 10 && self.minutes_before + self.minutes == 180;
        let expressways = result.expressways;
        if !result.is_valid() {
            format!("\n{expressways} expressways were NOT served: some answers were late or wrong\n\n")
        } else if self.only.is_none() && is_hardest_part {
            format!(
                "\nL-rating: {expressways} (the last {} of 180 minutes, from the cloned state of {} expressways)\n\n",
                self.minutes, self.base
            )
        } else {
            format!("\n{expressways} expressways were served in time\n\n")
        }
    }

    /// The single number to try: copies of the base group are whole.
    fn only(&self) -> Option<u16> {
        self.only.map(|only| only.next_multiple_of(self.base))
    }

    fn prepare(&self, workers: usize) -> anyhow::Result<BaseGroup> {
        let options = BaseOptions {
            expressways: self.base,
            seed: self.seed,
            minutes_before: self.minutes_before,
            minutes: self.minutes,
            workers,
            ..BaseOptions::default()
        };
        let minutes = u64::from(self.minutes_before + self.minutes);
        let bar = bar(minutes, "base group: minute {pos} of {len} {wide_bar} {eta} left");
        let base = BaseGroup::prepare(&options, |minute| bar.set_position(minute.into()))?;
        bar.finish_and_clear();
        Ok(base)
    }

    /// The most expressways to try: as requested, but never more than fit.
    fn most(&self, base: &BaseGroup, budget: &MemoryBudget) -> anyhow::Result<u16> {
        let available = memory::available_bytes();
        let bytes_per_expressway = budget.bytes_per_expressway * ALLOCATION_OVERHEAD;
        let fit = match available {
            0 => u64::from(u16::MAX - 1),
            available => {
                (available.saturating_sub(MEMORY_RESERVE_BYTES) as f64 / bytes_per_expressway) as u64
            }
        };
        let asked = self.only().or(self.to).unwrap_or(u16::MAX - 1);
        if self.only().or(self.to).is_some() && u64::from(asked) > fit {
            return Err(RatingError::Options(format!(
                "{asked} expressways need {}, but only {} are available: at most {fit} fit; close other programs \
                 or try fewer",
                quantity::bytes((f64::from(asked) * bytes_per_expressway) as u64),
                quantity::bytes(available)
            ))
            .into());
        }
        let most = u64::from(asked).min(fit).min(base.expressways_max().into()) as u16;
        terminal::tell(&format!(
            "base group: {} expressways, {} accounts; {} per clone, so at most {most} expressways",
            base.spans.expressways,
            quantity::count(base.accounts as u64),
            quantity::bytes(bytes_per_expressway as u64),
        ));
        Ok(most)
    }
}

/// Reports on the trials while they run.
#[derive(Default)]
struct Trials {
    bar: Option<ProgressBar>,
}

impl Trials {
    fn tell(&mut self, event: SearchEvent<'_>) {
        match event {
            SearchEvent::Begins { expressways, seconds } => {
                let template =
                    format!("L = {expressways}: second {{pos}} of {{len}} {{wide_bar}} {{eta}} left");
                self.bar = Some(bar(seconds as u64, &template));
            }
            SearchEvent::Second(second) => {
                if let Some(bar) = &self.bar {
                    bar.set_position(second as u64);
                }
            }
            SearchEvent::Ended(result) => {
                if let Some(bar) = self.bar.take() {
                    bar.finish_and_clear();
                }
                terminal::tell(&line(result));
            }
        }
    }
}

fn bar(length: u64, template: &str) -> ProgressBar {
    let target =
        if terminal::is_watched() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style = ProgressStyle::with_template(template).expect("the template is valid");
    ProgressBar::with_draw_target(Some(length), target).with_style(style)
}

fn line(result: &TrialResult) -> String {
    let late: u64 = result.counts.kinds.iter().map(|kind| kind.late).sum();
    format!(
        "L = {:>5}: {}, {:.2} M events/s, response p50 {} p99 {} max {}, {late} late, {} wrong, {} missing of {} \
         checked",
        result.expressways,
        if result.is_valid() { "valid  " } else { "INVALID" },
        result.events_per_second() / 1e6,
        time(result.status.per_event.quantile(0.5)),
        time(result.status.per_event.quantile(0.99)),
        time(result.status.per_event.max()),
        result.wrong,
        result.missing,
        quantity::count(result.checked),
    )
}

fn report(result: &TrialResult, workers: usize, budget: &MemoryBudget) -> String {
    let cores = std::thread::available_parallelism().map_or(0, |cores| cores.get());
    let mut text = String::new();
    text += &format!("  cores, workers         {cores}, {workers} (driver and encoding run on them, too)\n");
    text += &format!(
        "  events                 {} in {:.1} s: {:.2} M/s\n",
        quantity::count(result.events),
        result.elapsed_s,
        result.events_per_second() / 1e6
    );
    text += "  answers                       number      p50       p99    p99.99       max   limit   late\n";
    for (index, (kind, name)) in result.counts.kinds.iter().zip(KIND_NAMES).enumerate() {
        let quantile = |share| time(kind.response_times.quantile(share));
        text += &format!(
            "    type {index} {name:<12} {:>15} {:>8} {:>9} {:>9} {:>9} {:>5} s {:>6}\n",
            quantity::count(kind.answers),
            quantile(0.5),
            quantile(0.99),
            quantile(0.9999),
            time(kind.response_times.max()),
            LIMITS_S[index],
            kind.late
        );
    }
    text += &format!(
        "  checked in full        {} answers: {} wrong, {} missing\n",
        quantity::count(result.checked),
        result.wrong,
        result.missing
    );
    let busy =
        |counter| result.status.get(counter) as f64 / 1e9 / (result.elapsed_s * workers as f64) * 100.0;
    text += &format!(
        "  worker time            {:.0} % splitting, {:.0} % operators; sink {:.0} % of a core\n",
        busy(Counter::SplitTime),
        busy(Counter::OperatorTime),
        busy(Counter::OutputTime) * workers as f64
    );
    text += &format!(
        "  cycles                 {}, {:.0} events each\n",
        quantity::count(result.status.get(Counter::CyclesCommitted)),
        result.events as f64 / result.status.get(Counter::CyclesCommitted).max(1) as f64
    );
    text += &format!("  driver delay at most   {}\n", time(result.driver_late_max));
    text += &format!(
        "  memory                 {} at the peak; {:.1} bytes per car on the road, {:.1} per account ({} accounts)\n",
        quantity::bytes(result.memory_peak_bytes),
        budget.bytes_per_car_on_road,
        budget.bytes_per_account,
        quantity::count(result.accounts)
    );
    text += &format!(
        "  answers' text          {}, checksum {:08x}\n",
        quantity::bytes(result.answer_bytes),
        result.checksum
    );
    text += "  history                in memory";
    text
}

fn time(duration: Duration) -> String {
    quantity::time(duration)
}
