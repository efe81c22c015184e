//! Runs a script once with what a case says: the same cycles each time, whatever the machine does meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tidemill_connect::memory::{MemoryRows, MemorySink};
use tidemill_engine::Cause;
use tidemill_sql::{
    OpenSink, Output, Planner, QueryStatus, RunningQuery, SinkUse, StandIns, Statement, StatementKind,
    parse_all,
};

use super::case_file::{Body, Case, Moment, SectionKind};
use super::given_rows::{self, DeadLetter, GivenFaults, GivenRows};
use super::stand_in::{CaseClock, DeclaredSource, Delivery, SourceRegistry};
use super::table::Table;
use super::{CaseError, instead_of};
use crate::sql::is_definition;
use crate::wrong_script::WrongScript;

/// Where the clock of a case stands before it says something else: 2000-01-01.
const BEGINNING_NS: u64 = 946_684_800_000_000_000;
/// The most rows of a sink.
const ROWS_MAX: usize = 10_000_000;
/// How often it is looked whether sources have ended that a case does not stand in for.
const LOOK: Duration = Duration::from_millis(2);

/// A script to be tested.
#[derive(Clone, Debug)]
pub(super) struct TestedScript {
    pub name: String,
    pub text: String,
}

/// How a script is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub workers: usize,
    /// The most rows of a cycle.
    pub cycle_rows: usize,
}

impl std::fmt::Display for Run {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let workers = crate::quantity::counted(self.workers as u64, "worker");
        let rows = crate::quantity::counted(self.cycle_rows as u64, "row");
        write!(formatter, "{workers}, cycles of {rows}")
    }
}

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    /// The rows of each sink and view, with the types of their columns.
    pub outputs: BTreeMap<String, (Table, tidemill_engine::arrow::schema::SchemaRef)>,
    pub dead_letters: BTreeMap<String, Vec<DeadLetter>>,
    /// Rows that could not be computed, and the first reasons.
    pub failed: (u64, Vec<String>),
    pub late: u64,
    /// The parts of the plan, each with the rows that it received and wrote.
    pub parts: Vec<(String, u64, u64)>,
}

/// How a run ended.
pub(super) enum Ended {
    Done(Box<Outcome>),
    /// The pipeline was refused, or has failed.
    Refused(String),
    /// The case does not fit the script.
    Wrong(CaseError),
}

impl From<CaseError> for Ended {
    fn from(error: CaseError) -> Ended {
        Ended::Wrong(error)
    }
}

impl From<Cause> for Ended {
    fn from(cause: Cause) -> Ended {
        Ended::Refused(cause.to_string())
    }
}

/// Runs a script with a case.
pub(super) fn run(script: &TestedScript, case: &Arc<Case>, planner: Planner, how: Run) -> Ended {
    match try_run(script, case, planner, how) {
        Ok(outcome) => Ended::Done(Box::new(outcome)),
        Err(ended) => ended,
    }
}

fn try_run(
    script: &TestedScript,
    case: &Arc<Case>,
    mut planner: Planner,
    how: Run,
) -> Result<Outcome, Ended> {
    let (registry, clock) = (Arc::new(SourceRegistry::new(Arc::clone(case))), Arc::new(CaseClock::default()));
    clock.set_ns(BEGINNING_NS);
    let is_timed = case.sections.iter().any(|section| matches!(section.kind, SectionKind::At(_)));
    let stand_ins = StandIns {
        sources: Arc::clone(&registry) as _,
        clock: Arc::clone(&clock) as _,
        holds_against_clock: is_timed,
    };
    planner.settings_mut().stand_ins = Some(stand_ins);
    define(script, &mut planner)?;
    let settings = planner.settings_mut();
    (settings.workers, settings.processes, settings.journal) = (how.workers, 1, None);
    let planned = planner.pipeline();
    // Tables were read meanwhile.
    if let Some(wrong) = registry.end_planning() {
        return Err(wrong.into());
    }
    let pipeline = planned?.ok_or_else(|| {
        Cause::user(format!(
            "'{}' has no sink and no materialized view, so there is nothing to test",
            script.name
        ))
    })?;
    let others: Vec<String> = {
        let sources = registry.all();
        let others = pipeline.sources().into_iter().filter(|(name, _)| !sources.contains_key(*name));
        let endless = others.clone().find(|(_, is_finite)| !is_finite);
        if let Some((name, _)) = endless {
            return Err(Ended::Refused(format!(
                "the pipeline reads '{name}' within a query, and that never ends; a case can stand in for it \
                 if it is a source: CREATE SOURCE ... WITH (connector = 'generator', function = '{name}')"
            )));
        }
        others.map(|(name, _)| name.to_owned()).collect()
    };
    let (outputs, weighted) = (pipeline.outputs().to_vec(), pipeline.weighted_outputs());
    let collected: Arc<Mutex<BTreeMap<String, MemoryRows>>> = Arc::default();
    let open: Arc<OpenSink> = {
        let collected = Arc::clone(&collected);
        Arc::new(move |of: &SinkUse<'_>| {
            let (sink, rows) = MemorySink::new(of.schema, ROWS_MAX);
            collected.lock().insert(of.name.to_owned(), rows);
            Ok(Box::new(sink) as _)
        })
    };
    let running = pipeline.with_sinks(&open).open()?.start()?;
    let driver = Driver {
        case,
        sources: registry.all(),
        running: &running,
        clock: &clock,
        cycle_rows: how.cycle_rows,
        state: DriverState { now_ns: BEGINNING_NS, ..DriverState::default() },
    };
    let views = running.views().to_vec();
    let mut outcome = Outcome::default();
    let mut given = driver.drive(&others, is_timed)?;
    given.merge(registry.faults_of_tables());
    let (status, _) = running.wait()?;
    for output in &outputs {
        let view = views.iter().find(|view| view.name() == output.name);
        let rows = match view {
            Some(view) => view.read()?,
            None => collected
                .lock()
                .get(&output.name)
                .map(MemoryRows::read)
                .transpose()?
                .ok_or_else(|| Cause::bug(format!("the sink '{}' was not opened", output.name)))?,
        };
        let table = Table::of(&rows)?;
        let at_end = match view {
            Some(_) => table,
            None if weighted.contains(&output.name) => table.by_weight(),
            None => table.by_key(&key_of(output)),
        };
        outcome.outputs.insert(output.name.clone(), (at_end, rows.schema()));
    }
    fill(&mut outcome, &status, given, &registry);
    Ok(outcome)
}

/// Executes the definitions of a script.
fn define(script: &TestedScript, planner: &mut Planner) -> Result<(), Ended> {
    let wrong = |errors| Ended::Refused(WrongScript(errors).to_string());
    let (statements, errors) = parse_all(&script.text, &script.name);
    if !errors.is_empty() {
        return Err(wrong(errors));
    }
    let is_to_run = |statement: &&Statement| {
        is_definition(&statement.kind)
            && !matches!(statement.kind, StatementKind::Stop(_) | StatementKind::Start(_))
    };
    for statement in statements.iter().filter(is_to_run) {
        planner.execute(statement).map_err(|error| wrong(vec![error]))?;
    }
    Ok(())
}

/// The columns by which rows of an output replace others.
fn key_of(output: &Output) -> Vec<usize> {
    match &output.table_key {
        None => Vec::new(),
        Some(Some(key)) => key.clone(),
        // Its key is not among the columns: all rows that were ever there.
        Some(None) => (0..output.schema.fields().len()).collect(),
    }
}

/// What is known when the run has ended.
fn fill(outcome: &mut Outcome, status: &QueryStatus, given: GivenFaults, registry: &SourceRegistry) {
    let mut of_sources = 0;
    let mut samples = status.faults.samples.clone();
    for (name, feed) in &status.sources {
        of_sources += feed.faults.count;
        samples.retain(|sample| !feed.faults.samples.contains(sample));
        let mut letters = given.letters.get(name).cloned().unwrap_or_default();
        let refused = registry.all().get(name).map_or_else(Vec::new, |source| source.refused.lock().clone());
        // What the engine has left out without a text, such as rows without event time.
        let unknown = feed.faults.count.saturating_sub((letters.len() + refused.len()) as u64);
        let decoded = given.samples.get(name);
        let is_known = |sample: &&String| {
            decoded.is_some_and(|samples| samples.contains(sample))
                || sample.starts_with("a row was skipped: ")
        };
        let others = feed.faults.samples.iter().filter(|sample| !is_known(sample));
        let others = others
            .take(usize::try_from(unknown).unwrap_or(usize::MAX))
            .map(|reason| DeadLetter { reason: reason.clone(), record: String::new() });
        letters.extend(refused);
        letters.extend(others);
        letters.sort();
        if !letters.is_empty() {
            outcome.dead_letters.insert(name.clone(), letters);
        }
    }
    // Tables are read while the pipeline is planned.
    for (name, letters) in given.letters {
        outcome.dead_letters.entry(name).or_insert(letters);
    }
    samples.extend(status.null_results.samples.iter().cloned());
    outcome.failed = (status.faults.count - of_sources + status.null_results.count, samples);
    outcome.late = status.late;
    let sources = status.sources.iter().map(|(name, feed)| (format!("source {name}"), feed.rows, feed.rows));
    let work = status.engine.work.iter().map(|work| (work.name.clone(), work.rows_in, work.rows_out));
    let outputs = outcome.outputs.iter().map(|(name, (rows, _))| {
        let count = rows.rows.len() as u64;
        (format!("output {name}"), count, count)
    });
    outcome.parts = sources.chain(work).chain(outputs).collect();
}

#[derive(Default)]
struct DriverState {
    now_ns: u64,
    /// Rows since the last cycle.
    rows_in_cycle: usize,
    /// When the last rows of each source came.
    last_rows_ns: BTreeMap<String, u64>,
    idle: Vec<String>,
    faults: GivenFaults,
    is_stopped: bool,
}

/// Gives the sources what a case says, and closes cycles.
struct Driver<'a> {
    case: &'a Case,
    sources: BTreeMap<String, Arc<DeclaredSource>>,
    running: &'a RunningQuery,
    clock: &'a CaseClock,
    cycle_rows: usize,
    state: DriverState,
}

impl Driver<'_> {
    fn drive(mut self, others: &[String], is_timed: bool) -> Result<GivenFaults, Ended> {
        // The places of all sections are checked before anything runs.
        for section in self.case.sections.iter() {
            match &section.kind {
                SectionKind::Rows(name)
                | SectionKind::Text(name)
                | SectionKind::Idle(name)
                | SectionKind::DeadLetters(name) => {
                    self.source(name, section.line)?;
                }
                _ => {}
            }
        }
        self.begin_tables(others)?;
        for section in &self.case.sections {
            match &section.kind {
                SectionKind::At(moment) => self.move_clock(*moment, section.line, is_timed)?,
                SectionKind::Rows(name) | SectionKind::Text(name) => {
                    let source = self.source(name, section.line)?;
                    if source.is_read() && !source.source.is_table {
                        let is_text = matches!(section.kind, SectionKind::Text(_));
                        self.give(&source, &section.body, is_text)?;
                    }
                }
                SectionKind::Idle(name) => {
                    let source = self.source(name, section.line)?;
                    self.set_idle(&source);
                }
                SectionKind::Cycle => self.close_cycle()?,
                SectionKind::Stop => self.state.is_stopped = true,
                _ => {}
            }
        }
        for source in self.streams() {
            source.deliver(if self.state.is_stopped { Delivery::Left } else { Delivery::Ended });
        }
        Ok(self.state.faults)
    }

    /// The streams that the pipeline reads.
    fn streams(&self) -> Vec<Arc<DeclaredSource>> {
        let streams = self.sources.values().filter(|source| source.is_read() && !source.source.is_table);
        streams.cloned().collect()
    }

    fn source(&self, name: &str, line: usize) -> Result<Arc<DeclaredSource>, CaseError> {
        let found = self.sources.get(name).or_else(|| self.sources.get(&name.to_lowercase()));
        let source = found.ok_or_else(|| {
            let known: Vec<&str> = self.sources.keys().map(String::as_str).collect();
            self.case.error(line, format!("the script has no source '{name}'{}", instead_of(name, &known)))
        })?;
        if !source.is_read() && !source.is_read_as_table() {
            let reason = format!("no sink and no view reads source '{name}'; leave the section out");
            return Err(self.case.error(line, reason));
        }
        Ok(Arc::clone(source))
    }

    /// Tables are read before the streams; so is what ends by itself and is not given here.
    fn begin_tables(&mut self, others: &[String]) -> Result<(), Ended> {
        let tables: Vec<_> = self
            .sources
            .values()
            .filter(|source| source.is_read() && source.source.is_table)
            .cloned()
            .collect();
        for table in &tables {
            for section in &self.case.sections {
                match &section.kind {
                    SectionKind::Rows(name) | SectionKind::Text(name) if *name == table.source.name => {
                        self.give(table, &section.body, matches!(section.kind, SectionKind::Text(_)))?;
                    }
                    _ => {}
                }
            }
            table.deliver(Delivery::Ended);
        }
        while let Some(status) = self.running.status() {
            let runs =
                |(name, feed): &(String, tidemill_engine::FeedStatus)| others.contains(name) && !feed.ended;
            if !status.sources.iter().any(runs) || self.running.has_ended() {
                break;
            }
            std::thread::sleep(LOOK);
            self.close_cycle()?;
        }
        if !tables.is_empty() || !others.is_empty() {
            self.close_cycle()?;
        }
        Ok(())
    }

    /// Gives a source the rows of a section.
    fn give(&mut self, source: &DeclaredSource, body: &Body, is_text: bool) -> Result<(), Ended> {
        let name = &source.source.name;
        let GivenRows { batches, faults } = given_rows::read(self.case, &source.source, body, is_text)?;
        if faults.count > 0 {
            self.state.faults.note(name, &faults);
            source.deliver(Delivery::Faults(faults));
        }
        for batch in batches {
            let mut rest = batch;
            while rest.num_rows() > 0 {
                let count = rest.num_rows().min(self.cycle_rows - self.state.rows_in_cycle);
                self.state.last_rows_ns.insert(name.clone(), self.state.now_ns);
                self.state.idle.retain(|idle| idle != name);
                source.deliver(Delivery::Rows(rest.slice(0, count)));
                rest = rest.slice(count, rest.num_rows() - count);
                self.state.rows_in_cycle += count;
                if self.state.rows_in_cycle == self.cycle_rows {
                    self.close_cycle()?;
                }
            }
        }
        Ok(())
    }

    fn set_idle(&mut self, source: &DeclaredSource) {
        let name = &source.source.name;
        if !self.state.idle.contains(name) {
            self.state.idle.push(name.clone());
            source.deliver(Delivery::Idle);
        }
    }

    /// What came before the clock moves belongs to the time before. Sources that were silent for long enough are idle after it.
    fn move_clock(&mut self, moment: Moment, line: usize, is_timed: bool) -> Result<(), Ended> {
        let now_ns = match moment {
            Moment::Absolute(time_ns) => time_ns,
            Moment::Later(length_ns) => self.state.now_ns.saturating_add(length_ns),
        };
        let is_first = self.state.now_ns == BEGINNING_NS;
        if now_ns < self.state.now_ns && !is_first {
            return Err(self
                .case
                .error(line, "the clock does not go back; order the sections by time")
                .into());
        }
        if self.state.rows_in_cycle > 0 {
            self.close_cycle()?;
        }
        (self.state.now_ns, self.state.rows_in_cycle) = (now_ns, 0);
        self.clock.set_ns(now_ns);
        for source in self.streams().into_iter().filter(|_| is_timed) {
            let name = &source.source.name;
            let last_ns = *self.state.last_rows_ns.entry(name.clone()).or_insert(now_ns);
            let silent = Duration::from_nanos(now_ns.saturating_sub(last_ns));
            if source.source.idle_after.is_some_and(|limit| silent >= limit) {
                self.set_idle(&source);
            }
        }
        self.close_cycle()
    }

    fn close_cycle(&mut self) -> Result<(), Ended> {
        self.state.rows_in_cycle = 0;
        match self.running.close_cycle() {
            // Why it has failed is known when it is waited for.
            Err(_) if self.running.has_ended() => Ok(()),
            closed => Ok(closed?),
        }
    }
}
