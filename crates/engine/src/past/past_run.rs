//! Runs a query over its past.

use std::sync::Arc;

use crossbeam_channel::Receiver;
use tidemill_core::Cut;
use tidemill_core::Sink;
use tidemill_core::arrow::schema::SchemaRef;
use tidemill_core::error::Cause;
use tidemill_flow::{Resume, Running, Snapshots};
use tidemill_journal::inspect::{self, Listing};
use tidemill_plan::{OperatorPlan, Plan};

use super::past_cycles::{PastCycles, PastEnd, SourceInPast};
use super::past_records::PastRecords;
use super::past_sink::{PastCycle, PastSink, SinkCycle};
use super::past_state::PastState;
use super::{Past, PastStart, begun};
use crate::Engine;
use crate::clock::{SourceInCuts, SourceMark, SourceReplay, SourceView, of_marks};
use crate::durable::{Description, Durability};
use crate::feed_settings::FeedSettings;

/// A source of a query, as the query reads it from its journal.
pub struct PastSource {
    /// Its name in the journal.
    pub stream: String,
    /// How its rows come in.
    pub settings: FeedSettings,
    /// The columns of the journal from which these settings compute, in their order.
    pub raw: SchemaRef,
    /// The columns with which rows come in.
    pub schema: SchemaRef,
    /// Which of these the query reads; `None`: all.
    pub columns: Option<Vec<usize>>,
}

/// A query to run over a past.
pub struct PastQuery {
    /// Its plan.
    pub plan: Plan,
    /// Its sources, in the plan's order.
    pub sources: Vec<PastSource>,
    /// What it is. If the query is another one than the journal's, its state cannot be used, and it begins at the beginning.
    pub durability: Durability,
    /// Whether it is another query than that of the journal.
    pub is_other: bool,
    /// Whether the state after the last cycle is kept, for [`PastRun::take_state`].
    pub keeps_state: bool,
}

/// A query that runs over its past. Dropping it stops it.
pub struct PastRun {
    sinks: Vec<Receiver<SinkCycle>>,
    running: Option<Running>,
    after: Option<u64>,
    end: PastEnd,
    /// The operators whose state is kept, and where it comes from.
    kept: Option<(Vec<OperatorPlan>, Snapshots)>,
}

impl Engine {
    /// Runs a query over its past: the logged cycles from a state on, up to a cycle (`None`: to the last one), with the same
    /// rows. Whatever the sinks of the query were, its rows go to the caller. Nothing of the journal changes.
    ///
    /// # Errors
    /// If the journal is damaged, belongs to another query, or has no longer what is asked for; or if the plan cannot run.
    pub fn run_past(
        self,
        past: &Past,
        query: PastQuery,
        start: PastStart,
        last: Option<u64>,
    ) -> Result<PastRun, Cause> {
        let PastQuery { plan, sources, durability, is_other, keeps_state } = query;
        check_query(past, &plan, &sources, &durability, is_other)?;
        // What is logged now: the rows that a cut names are written before it.
        let cuts = inspect::list(&past.journal)?.cuts;
        let listing = inspect::list(&past.journal)?;
        let in_cuts = sources.iter().map(|source| past.in_cuts(&source.stream, &listing));
        let in_cuts = in_cuts.collect::<Result<Vec<_>, _>>()?;
        let first_state = if is_other { None } else { past.state(start)? };
        let first_cut = first_state.as_ref().map(|stored| &stored.cut);
        let may_begin_later = past.is_of_database && start == PastStart::Beginning && !is_other;
        let (after, state) = if may_begin_later && check_there(past, &listing, &sources, first_cut).is_err() {
            begun(past.state(PastStart::Oldest)?)
        } else {
            begun(first_state)
        };
        let first = after.as_ref().map_or(0, |cut| cut.cycle + 1);
        let last = match (cuts.end.checked_sub(1), last) {
            (Some(end), wanted)
                if end >= first && wanted.is_none_or(|wanted| (first..=end).contains(&wanted)) =>
            {
                wanted.unwrap_or(end)
            }
            (end, wanted) => return Err(no_cycle(past, (first, end), wanted)),
        };
        check_there(past, &listing, &sources, after.as_ref())?;
        let cycles = cycles(past, &plan, (sources, in_cuts), &listing, (after.as_ref(), last))?;
        if cycles.is_empty() {
            return Err(nothing_concerns(past, (first, last)));
        }
        let end = cycles.end();
        let receivers = plan.sinks.iter().map(|_| PastSink::new());
        let (sinks, receivers): (Vec<_>, Vec<_>) = receivers.unzip();
        let sinks = sinks.into_iter().map(|sink| Box::new(sink) as Box<dyn Sink>).collect();
        let after_cycle = after.as_ref().map(|cut| cut.cycle);
        let resume = Resume { after, replay: Vec::new(), sinks: vec![first; plan.sinks.len()] };
        let mut engine = self.clock_of_all_runs().resume(resume).cycles_from(Box::new(cycles));
        if let Some(state) = state.filter(|state| !state.operators.is_empty()) {
            engine = engine.state(Arc::new(state));
        }
        let operators = keeps_state.then(|| plan.operators.clone());
        let engine = if keeps_state { engine.snapshot_at_end() } else { engine };
        let running = engine.run(plan, sinks)?;
        let kept = operators.map(|operators| (operators, running.snapshots()));
        Ok(PastRun { sinks: receivers, running: Some(running), after: after_cycle, end, kept })
    }
}

impl PastRun {
    /// The cycle with whose state it began; `None`: it began at the beginning.
    pub fn after(&self) -> Option<u64> {
        self.after
    }

    /// The next cycle; `None`: that was the last one.
    ///
    /// # Errors
    /// Why it stopped before its end.
    pub fn next_cycle(&mut self) -> Result<Option<PastCycle>, Cause> {
        let mut cycle: Option<PastCycle> = None;
        for sink in &self.sinks {
            let Ok((cut, rows)) = sink.recv() else {
                // Each sink gets each cycle, so all of them have ended.
                return self.join().map(|()| None);
            };
            match &mut cycle {
                Some(cycle) => cycle.outputs.push(rows),
                None => cycle = Some(PastCycle { cut, outputs: vec![rows] }),
            }
        }
        Ok(cycle)
    }

    /// What the operators held after the last cycle. It is there once, if it was to be kept, and if
    /// [`next_cycle`](PastRun::next_cycle) has said that there is no further cycle.
    pub fn take_state(&mut self) -> Option<PastState> {
        let (operators, snapshots) = self.kept.take_if(|_| self.running.is_none())?;
        Some(PastState::new(operators, snapshots.of_end()?))
    }

    fn join(&mut self) -> Result<(), Cause> {
        let Some(running) = self.running.take() else { return Ok(()) };
        running.join()?;
        self.end.take().map_or(Ok(()), Err)
    }
}

/// Whether the query is that of the journal. Another one must at least mean the same by its rows and their times.
fn check_query(
    past: &Past,
    plan: &Plan,
    sources: &[PastSource],
    durability: &Durability,
    is_other: bool,
) -> Result<(), Cause> {
    let event_times = sources.iter().map(|source| {
        let event_time = source.settings.event_time?;
        Some((source.schema.fields().get(event_time.column)?.name().clone(), event_time.delay_ns))
    });
    let event_times: Vec<_> = event_times.collect();
    let mut description = Description::of(plan, &event_times, durability);
    if past.is_of_database {
        description = description.under_clock(sources.iter().map(|source| source.stream.as_str()));
    }
    if !is_other {
        return description.check(&past.description);
    }
    match description.event_times().find(|line| !past.description.lines().any(|known| known == *line)) {
        Some(line) => Err(Cause::user(format!(
            "the logged cycles have the event times of the journal's query, and this one has others: {line}. Use the \
             same WATERMARK FOR as the journal's query"
        ))),
        None => Ok(()),
    }
}

fn no_cycle(past: &Past, (first, end): (u64, Option<u64>), wanted: Option<u64>) -> Cause {
    let journal = past.journal.display();
    let has = match end {
        Some(end) if end >= first => {
            format!("after the state that it begins with, '{journal}' has the cycles {first} to {end}")
        }
        Some(end) => format!(
            "the last cycle of '{journal}' is {end}, and nothing follows the state that it begins with"
        ),
        None => format!("'{journal}' has no cycle yet"),
    };
    match wanted {
        Some(wanted) => Cause::user(format!("cycle {wanted} cannot be replayed: {has}")),
        None => Cause::user(format!("there is no cycle to replay: {has}")),
    }
}

fn nothing_concerns(past: &Past, (first, last): (u64, u64)) -> Cause {
    Cause::user(format!(
        "none of the cycles {first} to {last} of '{}' has anything of the query's sources that is still there",
        past.journal.display()
    ))
}

/// Whether the cuts and rows behind a cut are still there.
fn check_there(
    past: &Past,
    listing: &Listing,
    sources: &[PastSource],
    after: Option<&Cut>,
) -> Result<(), Cause> {
    let next = after.map_or(0, |cut| cut.cycle + 1);
    let gone = |what: String| {
        let begin = match after {
            None => "the first cycle".to_owned(),
            Some(cut) => format!("the state after cycle {}", cut.cycle),
        };
        let states = past.states().unwrap_or_default();
        let remedy = match states.iter().find(|state| Some(**state) > after.map(|cut| cut.cycle)) {
            Some(state) => format!("--from-snapshot={state} begins with the state after cycle {state}"),
            None => "no newer state is kept".to_owned(),
        };
        Err(Cause::user(format!(
            "a replay cannot begin with {begin}: {what}, because no start of the query needed them any more; {remedy}"
        )))
    };
    if listing.cuts.first > next {
        return gone(format!("the cuts before that of cycle {} are gone", listing.cuts.first));
    }
    for (at, source) in sources.iter().enumerate() {
        let needed = after.map_or(0, |cut| cut.positions[at]);
        let first = listing.streams.iter().find(|log| log.name == source.stream).map_or(0, |log| log.first);
        if first > needed {
            return gone(format!("the rows of '{}' before position {first} are gone", source.stream));
        }
    }
    Ok(())
}

/// The cycles behind a cut, up to the last one that is wanted.
fn cycles(
    past: &Past,
    plan: &Plan,
    (sources, in_cuts): (Vec<PastSource>, Vec<SourceInCuts>),
    listing: &Listing,
    (after, last): (Option<&Cut>, u64),
) -> Result<PastCycles, Cause> {
    let start = of_marks(&Cut::first(), vec![SourceMark::START; sources.len()]);
    let begin = after.cloned().unwrap_or(start);
    let mut in_past = Vec::new();
    for (at, ((source, planned), in_cuts)) in sources.iter().zip(&plan.sources).zip(in_cuts).enumerate() {
        let records = PastRecords::new(past.journal.clone(), &source.stream, Arc::clone(&source.raw));
        let skips = [&listing.skips, &past.left_out].map(|skips| skips.get(&source.stream));
        let skipped = skips.into_iter().flatten().flat_map(|skips| skips.ranges().iter().cloned()).collect();
        let both = [Arc::clone(&source.schema), Arc::clone(&source.schema)];
        // The clock of a database keeps late rows for whoever reads them.
        let streams = if source.columns.is_some() { &both[..] } else { &planned.streams[..] };
        let place = (begin.positions[at], begin.watermarks[at]);
        let rows = SourceReplay::of((Box::new(records), skipped), (&source.settings, streams), place);
        let (columns, streams) = (source.columns.clone(), planned.streams.clone());
        let view = SourceView { columns, streams, feed: Arc::default() };
        let end = listing.streams.iter().find(|log| log.name == source.stream).map_or(0, |log| log.end);
        in_past.push(SourceInPast { name: source.stream.clone(), in_cuts, end, rows, view });
    }
    let logged = inspect::cuts_from(&past.journal, after.map_or(0, |cut| cut.cycle + 1))?;
    let are_some_left_out = past.is_of_database && !plan.has_clock_timers();
    PastCycles::new((logged, last), are_some_left_out.then_some(begin), in_past)
}
