//! `CREATE POOL`, and what a sink asks of time.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_engine::analysis::DeferrableServer;
use tidemill_engine::{Affinity, Policy, PoolSettings, WhenEmpty};

use super::deadlines::AnalysedSink;
use super::{Planner, Reply, select_all};
use crate::connectors::define_sink;
use crate::pool_definition::PoolDefinition;
use crate::query::real_time::RealTime;
use crate::query::time_contract::TimeContract;
use crate::statement::{CreatePool, CreateSink, Options, RelationKind, SinkInput, Statement};
use crate::text::{Problem, TextError};

const OPTIONS: [&str; 10] = [
    "workers",
    "policy",
    "priority",
    "cores",
    "affinity",
    "budget",
    "period",
    "when_empty",
    "lock_memory",
    "best_effort",
];

/// The cores of one worker: `cores_of_worker_1 = '0,1'`.
const CORES_OF_WORKER: &str = "cores_of_worker_";

/// The largest number of a core.
const CORE_MAX: usize = 1023;

impl Planner {
    pub(super) fn create_pool(
        &mut self,
        create: &CreatePool,
        statement: &Statement,
    ) -> Result<Reply, TextError> {
        let name = create.name.as_str();
        let failed = self.catalog.failed(RelationKind::Pool, name).is_some();
        if failed || self.catalog.pools.contains_key(name) {
            if create.if_not_exists {
                return Ok(Reply::Done(format!("'{name}' already exists")));
            }
            if !create.or_replace {
                let error = statement.error(create.name.span, format!("pool '{name}' already exists"));
                let error = error.of(Problem::Exists);
                return Err(error.with_hint("choose another name, or write CREATE OR REPLACE"));
            }
        }
        let settings = settings(name, &create.options)?;
        settings.check().map_err(|error| statement.error(create.name.span, error.to_string()))?;
        self.catalog.pools.insert(name.to_owned(), Arc::new(PoolDefinition::new(settings)));
        Ok(Reply::Done(format!("pool {name} created")))
    }

    /// What a sink asks of time: its pool must be there.
    pub(super) fn contract(&self, options: &Options) -> Result<Option<TimeContract>, TextError> {
        let Some(contract) = TimeContract::read(options)? else { return Ok(None) };
        let Some(pool) = contract.pool.as_deref().filter(|pool| !self.catalog.pools.contains_key(*pool))
        else {
            return Ok(Some(contract));
        };
        let error = options.error("pool", format!("there is no pool '{pool}'"));
        let pools = self.catalog.pools.keys().map(String::as_str);
        Err(match crate::closest(pool, pools) {
            Some(meant) => error.with_hint(format!("did you mean {meant}?")),
            None => error.with_hint(format!(
                "define it first: CREATE POOL {pool} WITH (workers = 2, policy = 'fifo')"
            )),
        })
    }

    /// What a sink that is only explained promises of time.
    pub(super) fn real_time_of(
        &self,
        create: &CreateSink,
        statement: &Statement,
    ) -> Result<RealTime, TextError> {
        let contract = self.contract(&create.options)?;
        let Some(contract) = contract else { return Ok(RealTime::default()) };
        let definition = define_sink(&create.options, &self.catalog.connectors, &self.settings)?;
        let plan = match &create.input {
            Some(SinkInput::Query(query)) => self.sink_input(query, definition.takes, statement)?,
            Some(SinkInput::Relation(name)) => {
                self.sink_input(&select_all(name, statement)?, definition.takes, statement)?
            }
            None => return Ok(RealTime::default()),
        };
        let analysed = AnalysedSink {
            name: create.name.value.clone(),
            contract: Some(contract),
            connector: definition.connector,
            plans: vec![plan],
        };
        let real_time =
            self.real_time(&[analysed]).and_then(|real_time| real_time.check().map(|()| real_time));
        real_time.map_err(|cause| statement.error(create.name.span, cause.to_string()))
    }

    /// The sink that runs in a pool.
    pub(super) fn user_of_pool(&self, pool: &str) -> Option<&str> {
        let in_pool = |contract: &TimeContract| contract.pool.as_deref() == Some(pool);
        let mut sinks = self.catalog.sinks.iter();
        sinks.find(|(_, sink)| sink.contract.as_ref().is_some_and(in_pool)).map(|(name, _)| name.as_str())
    }
}

fn settings(name: &str, options: &Options) -> Result<PoolSettings, TextError> {
    let given = options.iter().map(|entry| entry.name.as_str());
    let of_workers: Vec<&str> = given.filter(|name| name.starts_with(CORES_OF_WORKER)).collect();
    let known: Vec<&str> = OPTIONS.iter().chain(&of_workers).copied().collect();
    options.finish(&known)?;

    let mut cores_of_worker = BTreeMap::new();
    for option in of_workers {
        let Ok(worker) = option[CORES_OF_WORKER.len()..].parse::<usize>() else {
            return Err(
                options.error_at_name(option, format!("`{option}` does not end with the number of a worker"))
            );
        };
        cores_of_worker.insert(worker, cores(options, option)?);
    }
    let affinity = match options.choice("affinity", &["global", "partitioned", "semi"])? {
        Some("partitioned") => Affinity::Partitioned,
        Some("semi") => Affinity::Semi,
        _ => Affinity::Global,
    };
    let when_empty = match options.choice("when_empty", &["ordinary", "pause"])? {
        Some("pause") => WhenEmpty::Pause,
        _ => WhenEmpty::Ordinary,
    };
    Ok(PoolSettings {
        workers: options.integer("workers", 1..=1024)?.unwrap_or(1) as usize,
        policy: policy(options)?,
        cores: cores(options, "cores")?,
        affinity,
        cores_of_worker,
        budget: budget(options)?,
        when_empty,
        lock_memory: options.boolean("lock_memory")?.unwrap_or(false),
        best_effort: options.boolean("best_effort")?.unwrap_or(false),
        ..PoolSettings::new(name)
    })
}

fn policy(options: &Options) -> Result<Policy, TextError> {
    let policy = options.choice("policy", &["other", "fifo", "rr", "deadline"])?.unwrap_or("other");
    let priority = options.integer("priority", 1..=99)?;
    match (policy, priority) {
        ("fifo" | "rr", None) => {
            let error = options.error("policy", format!("policy '{policy}' needs a priority"));
            Err(error.with_hint("add priority = 26: from 1 to 99, larger goes first"))
        }
        ("other" | "deadline", Some(_)) => {
            let error = options.error_at_name("priority", format!("policy '{policy}' has no priorities"));
            Err(error.with_hint("remove priority, or choose policy = 'fifo'"))
        }
        ("fifo", Some(priority)) => Ok(Policy::Fifo { priority: priority as u32 }),
        ("rr", Some(priority)) => Ok(Policy::RoundRobin { priority: priority as u32 }),
        ("deadline", _) => Ok(Policy::Deadline),
        _ => Ok(Policy::Other),
    }
}

fn budget(options: &Options) -> Result<Option<DeferrableServer>, TextError> {
    match (options.duration_ns("budget")?, options.duration_ns("period")?) {
        (None, None) => Ok(None),
        (Some(capacity_ns), Some(period_ns)) => {
            Ok(Some(DeferrableServer { capacity_ns: capacity_ns as u64, period_ns: period_ns as u64 }))
        }
        (Some(_), None) => {
            let error =
                options.error_at_name("budget", "a budget needs the period after which it is full again");
            Err(error.with_hint("add period = '100 ms'"))
        }
        (None, Some(_)) => {
            let error = options.error_at_name("period", "a period belongs to a budget");
            Err(error.with_hint("add budget = '20 ms', or remove period"))
        }
    }
}

/// Numbers of cores, separated by commas.
fn cores(options: &Options, name: &str) -> Result<Vec<usize>, TextError> {
    let Some(text) = options.text(name)? else { return Ok(Vec::new()) };
    let core = |text: &str| text.trim().parse::<usize>().ok().filter(|core| *core <= CORE_MAX);
    let cores: Option<Vec<usize>> = text.split(',').map(core).collect();
    cores.ok_or_else(|| {
        let error = options.error(name, format!("'{text}' does not list cores"));
        error.with_hint(format!("write numbers from 0 to {CORE_MAX}: {name} = '0,1'"))
    })
}
