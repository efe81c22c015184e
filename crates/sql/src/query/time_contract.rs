//! What a sink asks of time, and what it says about its events.

use std::time::Duration;

use tidemill_engine::analysis::{Arrivals, CostModel, Interference};

use crate::statement::Options;
use crate::text::TextError;

/// What a sink asks of time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TimeContract {
    pub pool: Option<String>,
    pub deadline_ns: Option<u64>,
    pub burst: u64,
    pub min_gap_ns: Option<u64>,
    /// What its events cost. Not `None` if it is analysed.
    pub cost: Option<StatedCost>,
    pub buffer_max: Option<u32>,
    /// Whether cycles that wait close at multiples of the interval.
    pub is_periodic: bool,
    /// Whether it also runs if a deadline cannot be kept for certain.
    pub best_effort: bool,
}

/// Where the costs of events come from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum StatedCost {
    /// Each event costs this at most.
    Event(u64),
    /// What is measured, times this.
    Measured { margin: f64 },
}

/// A sink with its contract.
#[derive(Clone, Debug)]
pub(crate) struct SinkContract {
    pub name: String,
    pub contract: TimeContract,
    /// What it costs by itself; `None` if that is not known, or not yet.
    pub cost: Option<CostModel>,
}

/// The options of a contract.
const OPTIONS: [&str; 9] =
    ["pool", "deadline", "burst", "min_gap", "wcet", "margin", "buffer_max", "release", "best_effort"];

/// By how much measured costs are multiplied if nothing else is said, and the range of what may be said.
const MARGIN: f64 = 1.5;
const MARGINS: std::ops::RangeInclusive<f64> = 1.0..=100.0;

impl TimeContract {
    /// The contract that the options state, if they state one.
    pub fn read(options: &Options) -> Result<Option<TimeContract>, TextError> {
        if OPTIONS.iter().all(|name| options.get(name).is_none()) {
            return Ok(None);
        }
        let mut contract = TimeContract {
            pool: options.text("pool")?.map(str::to_owned),
            deadline_ns: positive(options, "deadline")?,
            burst: options.integer("burst", 1..=1_000_000)?.unwrap_or(1) as u64,
            min_gap_ns: positive(options, "min_gap")?,
            cost: cost(options)?,
            buffer_max: options.integer("buffer_max", 1..=1 << 30)?.map(|rows| rows as u32),
            is_periodic: options.choice("release", &["waiting", "periodic"])? == Some("periodic"),
            best_effort: options.boolean("best_effort")?.unwrap_or(false),
        };
        if contract.is_periodic && contract.pool.is_none() && contract.min_gap_ns.is_none() {
            let error = options.error("release", "cycles close periodically only for a query by itself");
            return Err(error.with_hint("choose a pool for the sink, or state deadline and min_gap"));
        }
        let asks =
            ["burst", "min_gap", "wcet", "margin"].into_iter().find(|name| options.get(name).is_some());
        let Some(name) = asks else { return Ok(Some(contract)) };
        if [contract.deadline_ns, contract.min_gap_ns].contains(&None) {
            let error = options.error_at_name(name, "the analysis needs deadline and min_gap");
            return Err(error.with_hint(
                "state both: deadline = '60 ms', min_gap = '20 ms' (between bursts); and wcet = '2 ms' (of an event), \
                 if it is not to be measured",
            ));
        }
        contract.cost.get_or_insert(StatedCost::Measured { margin: MARGIN });
        Ok(Some(contract))
    }

    pub fn deadline(&self) -> Option<Duration> {
        self.deadline_ns.map(Duration::from_nanos)
    }

    pub fn is_analysed(&self) -> bool {
        self.cost.is_some()
    }

    /// How its events arrive, if it is analysed.
    pub fn arrivals(&self) -> Option<Arrivals> {
        Some(Arrivals::bursts_up_to(self.burst, self.min_gap_ns.filter(|_| self.is_analysed())?))
    }
}

impl SinkContract {
    /// What it does to others of its pool: its events may have waited for as long as their deadline allows.
    pub fn as_pool_mate(&self) -> Option<Interference> {
        let TimeContract { burst, min_gap_ns, deadline_ns, .. } = self.contract;
        // A burst may be divided, at most into its events.
        let cost = self.cost?;
        let cost_ns = cost.event_ns.saturating_add(cost.batch_ns).saturating_mul(burst);
        Some(Interference::periodic(&self.name, min_gap_ns?, cost_ns).with_jitter(deadline_ns?))
    }
}

fn positive(options: &Options, name: &str) -> Result<Option<u64>, TextError> {
    match options.duration_ns(name)? {
        Some(0) => Err(options.error(name, format!("{name} must be longer than 0"))),
        length_ns => Ok(length_ns.map(|length_ns| length_ns as u64)),
    }
}

fn cost(options: &Options) -> Result<Option<StatedCost>, TextError> {
    let measures = |text: &str| text.eq_ignore_ascii_case("measure");
    let is_measured =
        options.get("wcet").map(|_| options.text("wcet").is_ok_and(|text| text.is_some_and(measures)));
    let margin = margin(options)?;
    match (is_measured, margin) {
        (Some(false), Some(_)) => {
            let error = options.error_at_name("margin", "a margin belongs to costs that are measured");
            Err(error.with_hint("remove margin, or write wcet = 'measure'"))
        }
        (Some(false), None) => Ok(positive(options, "wcet")?.map(StatedCost::Event)),
        (None, None) => Ok(None),
        (_, margin) => Ok(Some(StatedCost::Measured { margin: margin.unwrap_or(MARGIN) })),
    }
}

fn margin(options: &Options) -> Result<Option<f64>, TextError> {
    let Some(text) = options.text("margin")? else { return Ok(None) };
    match text.parse::<f64>() {
        Ok(margin) if MARGINS.contains(&margin) => Ok(Some(margin)),
        _ => {
            let error = options.error("margin", format!("'{text}' is not a number from 1 to 100"));
            Err(error
                .with_hint("with margin = 1.5, the analysis counts one and a half times what was measured"))
        }
    }
}
