//! What a query promises of time: its pool, its deadline, and the analysis that admits it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use tidemill_engine::analysis::{
    Admission, Arrivals, DeferrableServer, Interference, Processors, Stream, admit,
};
use tidemill_engine::{Cause, CyclePolicy, Policy, PoolSettings};

use crate::pool_definition::PoolDefinition;
use crate::query::bound_text::{admission_text, pool_text, refusal_text, time};
use crate::settings::Settings;
use crate::statement::Options;
use crate::text::TextError;

/// What a sink asks of time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TimeContract {
    pub pool: Option<String>,
    pub deadline_ns: Option<u64>,
    pub burst: u64,
    pub min_gap_ns: Option<u64>,
    pub wcet_ns: Option<u64>,
    pub buffer_max: Option<u32>,
}

/// The options of a contract.
const OPTIONS: [&str; 6] = ["pool", "deadline", "burst", "min_gap", "wcet", "buffer_max"];

/// What the queries of a pipeline promise together.
#[derive(Clone, Debug, Default)]
pub(crate) struct RealTime {
    pub pool: Option<Arc<PoolDefinition>>,
    pub deadline: Option<Duration>,
    /// What an event may cost, if that is stated.
    pub wcet: Option<Duration>,
    admission: Option<Admission>,
    buffer_max: Option<u32>,
    /// What the bound does not count.
    not_counted: Vec<String>,
}

impl TimeContract {
    /// The contract that the options state, if they state one.
    pub fn read(options: &Options) -> Result<Option<TimeContract>, TextError> {
        if OPTIONS.iter().all(|name| options.get(name).is_none()) {
            return Ok(None);
        }
        let positive = |name: &str| match options.duration_ns(name)? {
            Some(0) => Err(options.error(name, format!("{name} must be longer than 0"))),
            length_ns => Ok(length_ns.map(|length_ns| length_ns as u64)),
        };
        let contract = TimeContract {
            pool: options.text("pool")?.map(str::to_owned),
            deadline_ns: positive("deadline")?,
            burst: options.integer("burst", 1..=1_000_000)?.unwrap_or(1) as u64,
            min_gap_ns: positive("min_gap")?,
            wcet_ns: positive("wcet")?,
            buffer_max: options.integer("buffer_max", 1..=1 << 30)?.map(|rows| rows as u32),
        };
        let analysed = ["burst", "min_gap", "wcet"].into_iter().find(|name| options.get(name).is_some());
        if let Some(name) = analysed
            && [contract.deadline_ns, contract.min_gap_ns, contract.wcet_ns].contains(&None)
        {
            let error = options.error_at_name(name, "the analysis needs deadline, min_gap and wcet");
            return Err(error.with_hint(
                "state all three: deadline = '60 ms', min_gap = '20 ms' (between bursts), wcet = '2 ms' (of an event)",
            ));
        }
        Ok(Some(contract))
    }

    fn deadline(&self) -> Option<Duration> {
        self.deadline_ns.map(Duration::from_nanos)
    }

    fn is_analysed(&self) -> bool {
        self.wcet_ns.is_some()
    }

    fn stream(&self) -> Option<Stream> {
        let arrivals = Arrivals::bursts_up_to(self.burst, self.min_gap_ns?);
        Some(Stream::new(arrivals, self.wcet_ns?))
    }

    /// What it does to others of its pool: its events may have waited for as long as their deadline allows.
    fn as_pool_mate(&self, name: &str) -> Option<Interference> {
        let cost_ns = self.wcet_ns?.saturating_mul(self.burst);
        Some(Interference::periodic(name, self.min_gap_ns?, cost_ns).with_jitter(self.deadline_ns?))
    }
}

impl RealTime {
    /// What these sinks promise together, beside `others` that run in the same pool by themselves.
    ///
    /// # Errors
    /// If they contradict each other, or the deadline cannot be kept.
    pub fn of(
        contracts: &[(String, TimeContract)],
        others: &[(String, TimeContract)],
        pools: &BTreeMap<String, Arc<PoolDefinition>>,
        settings: &Settings,
    ) -> Result<RealTime, Cause> {
        let Some(((first, contract), rest)) = contracts.split_first() else {
            return Ok(RealTime::default());
        };
        let differs = |(_, other): &&(String, TimeContract)| {
            other.pool != contract.pool
                || (other.is_analysed()
                    && (other.burst, other.min_gap_ns) != (contract.burst, contract.min_gap_ns))
        };
        if let Some((other, _)) = rest.iter().find(differs) {
            return Err(Cause::user(format!(
                "sinks '{first}' and '{other}' run together, but differ in pool, burst or min_gap; make \
                 them the same, or run them one by one"
            )));
        }
        let pool = contract.pool.as_ref().and_then(|pool| pools.get(pool)).cloned();
        let all = || contracts.iter().map(|(_, contract)| contract);
        let deadline_ns = all().filter_map(|contract| contract.deadline_ns).min();
        let buffer_max = all().filter_map(|contract| contract.buffer_max).min();
        let mut real_time = RealTime {
            deadline: deadline_ns.map(Duration::from_nanos),
            buffer_max,
            pool,
            wcet: None,
            admission: None,
            not_counted: Vec::new(),
        };
        // Each event costs what all queries do with it.
        let wcet_ns = all()
            .map(|contract| contract.wcet_ns)
            .try_fold(0_u64, |sum, cost| Some(sum.saturating_add(cost?)));
        real_time.wcet = wcet_ns.map(Duration::from_nanos);
        let together = TimeContract { wcet_ns, deadline_ns, ..contract.clone() };
        if let (Some(stream), Some(deadline_ns)) = (together.stream(), deadline_ns) {
            let processors = real_time.processors(others, pools);
            let admission = admit(&stream, &processors, deadline_ns);
            real_time.admission = Some(admission.map_err(|refusal| {
                let (deadline, reason) = (time(deadline_ns), refusal_text(&refusal));
                Cause::user(format!("sink '{first}' cannot keep its deadline of {deadline}: {reason}"))
            })?);
        }
        real_time.check(settings)?;
        Ok(real_time)
    }

    /// The processors for the analysis: one of the pool's workers, because the keys of all rows may fall to one. Wherever
    /// workers may run, a worker that waits can only do so while each of its cores works for the pool, or for what goes first.
    fn processors(
        &mut self,
        others: &[(String, TimeContract)],
        pools: &BTreeMap<String, Arc<PoolDefinition>>,
    ) -> Processors {
        let mut processors = Processors::one();
        let Some(pool) = self.pool.clone() else { return processors };
        let settings = &pool.settings;
        // Queries of other sinks may run together, with the shortest of their deadlines.
        let is_first = self.deadline.is_some_and(|own| {
            let is_longer =
                |(_, other): &(String, TimeContract)| other.deadline().is_none_or(|other| own < other);
            settings.levels() > 1 && others.iter().all(is_longer)
        });
        // A budget is used by all of them, whoever goes first.
        let mates = if is_first && settings.budget.is_none() { &[] } else { others };
        for (name, contract) in mates {
            match contract.as_pool_mate(name) {
                Some(mate) => processors.pool_mates.push(mate),
                None => self
                    .not_counted
                    .push(format!("sink '{name}' of the same pool, which does not state its cost")),
            }
        }
        let deadlines = others.iter().map(|(_, other)| other.deadline()).chain([self.deadline]);
        let own = priority(settings) - settings.level(self.deadline, deadlines);
        for other in pools.values().filter(|other| other.settings.name != settings.name) {
            let name = &other.settings.name;
            match other.settings.budget {
                _ if priority(&other.settings) < own || priority(&other.settings) == 0 => {}
                Some(budget) => processors.higher.push(budget.interference(format!("pool {name}"))),
                None => {
                    self.not_counted.push(format!("pool '{name}', which has a higher priority and no budget"))
                }
            }
        }
        if let (Policy::Deadline, Some(DeferrableServer { capacity_ns, period_ns })) =
            (settings.policy, settings.budget)
        {
            let capacity_ns = capacity_ns / settings.workers as u64;
            // The kernel may serve a period late and the next one early.
            processors.blocking_ns = period_ns.saturating_sub(capacity_ns);
            return processors.within(DeferrableServer { capacity_ns, period_ns });
        }
        processors.budget = settings.budget;
        if settings.policy == Policy::Other {
            self.not_counted
                .push("all other threads of the machine: policy 'other' guarantees nothing".to_owned());
        }
        processors
    }

    /// Refuses settings under which the analysis would not hold.
    fn check(&self, settings: &Settings) -> Result<(), Cause> {
        if self.admission.is_some() && settings.cycle_fixed {
            return Err(Cause::user(
                "cycles of a fixed size do not close in time for a deadline; SET cycle_fixed = false, or remove \
                 wcet, min_gap and burst from the sink",
            ));
        }
        Ok(())
    }

    /// The settings of a query that runs in the pool: with as many workers as that has.
    pub fn settings(&self, settings: &Settings) -> Settings {
        let workers = self.pool.as_ref().map_or(settings.workers, |pool| pool.settings.workers);
        Settings { workers, ..settings.clone() }
    }

    /// When cycles close: as the analysis says; otherwise an event waits for a fifth of the deadline.
    pub fn cycles(&self, policy: CyclePolicy) -> CyclePolicy {
        let events_max = |most: u64| u32::try_from(most).unwrap_or(u32::MAX).min(1 << 30);
        let policy = match &self.admission {
            Some(Admission { release, .. }) => CyclePolicy {
                events_max: events_max(release.buffer_max),
                wait_max: Some(Duration::from_nanos(release.interval_ns)),
                close_when_idle: false,
            },
            None => policy,
        };
        let most = self.buffer_max.unwrap_or(policy.events_max);
        CyclePolicy { events_max: policy.events_max.min(most), ..policy }
    }

    /// Whether cycles are processed one after another, as the analysis assumes.
    pub fn one_at_a_time(&self) -> bool {
        self.admission.is_some()
    }

    /// Whether its sources are read, and its cycles closed, for it alone: by threads of its pool, as the analysis says.
    pub fn has_own_cycles(&self) -> bool {
        self.pool.is_some() || self.admission.is_some()
    }

    /// Pool, deadline, bound and terms, each on a line.
    pub fn explain(&self) -> String {
        let mut text = String::new();
        if let Some(pool) = &self.pool {
            let _ = writeln!(text, "pool: {}, {}", pool.settings.name, pool_text(&pool.settings));
        }
        if let Some(deadline) = self.deadline {
            let deadline = time(deadline.as_nanos() as u64);
            let _ = match &self.admission {
                None => writeln!(
                    text,
                    "deadline: {deadline}, not analysed: late answers are counted; min_gap and wcet give a bound"
                ),
                Some(admission) => writeln!(text, "deadline: {deadline}; {}", admission_text(admission)),
            };
        }
        if !self.not_counted.is_empty() {
            let _ = writeln!(text, "the bound does not include {}", self.not_counted.join("; "));
        }
        text
    }
}

/// The priority that the kernel compares; deadline threads go before all.
fn priority(settings: &PoolSettings) -> u32 {
    match settings.policy {
        Policy::Other => 0,
        Policy::Fifo { priority } | Policy::RoundRobin { priority } => priority,
        Policy::Deadline => 100,
    }
}
