//! Starts a query under a clock.

use std::sync::Arc;
use std::time::Instant;

use tidemill_core::arrow::schema::SchemaRef;
use tidemill_core::error::Cause;
use tidemill_core::{Cut, Sink, Source};
use tidemill_flow::{HeldBack, Resume, Running};
use tidemill_journal::{StreamReader, StreamWriter};
use tidemill_plan::{CyclePolicy, Plan};

use super::entry::ClockEntry;
use super::lost_rows::SourceMark;
use super::query_cycles::{QueryCycles, SourceView};
use super::query_position::{GivenNumbers, QueryPosition};
use super::query_replay::QueryReplay;
use super::query_state::{DurableState, QueryState};
use super::source_journal::SourceJournal;
use super::source_state::SourceState;
use super::source_use::{DurableUse, SourceUse};
use super::{ClockShared, DatabaseClock, ReadSource, StartReading};
use crate::Engine;
use crate::durable::{BATCHES_HANDED_ON, DurableSource, FeedStart, SyncPolicy, parts};
use crate::feed::{Feed, SharedReading, spawn};
use crate::feed_settings::FeedSettings;
use crate::feed_state::FeedState;
use crate::feeder::Feeder;

/// A query that runs under the clock of a database. Its parts are dropped in this order: query, feeds.
pub struct ClockRun {
    /// The running query.
    pub running: Running,
    /// A feed for each source, in the plan's order. Stopping one ends the query at a cut.
    pub feeds: Vec<Feed>,
    /// The cycle after which it begins; `None`: it has all cycles.
    pub begins_after: Option<u64>,
    /// How far it is.
    pub position: QueryPosition,
}

/// A query's part in a clock. Dropping it ends that, and waits until sources that nobody else reads are closed.
struct Subscription {
    shared: Arc<ClockShared>,
    query: u64,
}

impl SharedReading for Subscription {
    /// Ends the query at a cut.
    fn end(&self) {
        let wakers = self.shared.lock().end(self.query, self.shared.clock.now_ns());
        self.shared.announce(&wakers);
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.shared.leave(self.query);
        self.shared.wait_for_closed();
    }
}

/// A source that was opened for a query, and is not read yet.
struct OpenedSource {
    id: u64,
    source: Box<dyn Source>,
    settings: FeedSettings,
    feed: Arc<FeedState>,
    schema: SchemaRef,
    journal: Option<OpenedJournal>,
}

/// The journal of a source that was opened.
struct OpenedJournal {
    stream: (StreamWriter, StreamReader),
    durable: DurableUse,
    mark: SourceMark,
}

/// A query whose sources are open, and that has not begun.
pub(super) struct Joined {
    pub query: u64,
    /// The numbers of the cycles that it is given.
    pub given: GivenNumbers,
    subscription: Arc<Subscription>,
    views: Vec<SourceView>,
    opened: Vec<OpenedSource>,
    feeds: Vec<Feed>,
}

impl Engine {
    /// Starts a plan with its sinks and sources, each in the plan's order, under the clock of a database. The query begins
    /// at the current cut; sources that other queries read are not opened again.
    ///
    /// # Errors
    /// If a source cannot be opened, or the plan or the settings cannot run.
    pub fn run_under(
        self,
        clock: &DatabaseClock,
        plan: Plan,
        sinks: Vec<Box<dyn Sink>>,
        sources: Vec<SourceUse>,
    ) -> Result<ClockRun, Cause> {
        let shared = &clock.shared;
        let _starting = shared.starting.lock();
        shared.wait_for_closed();
        let joined = join(shared, (self.cycle_policy(), None), &plan, sources)?;
        let after = joined.begins();
        let first = after.as_ref().map_or(0, |cut| cut.cycle + 1);
        let resume = Resume { after, replay: Vec::new(), sinks: vec![first; sinks.len()] };
        joined.run(self, plan, sinks, resume, None)
    }
}

/// Opens the sources of a query that nobody else reads, and lets it read the others.
pub(super) fn join(
    shared: &Arc<ClockShared>,
    (policy, durable): (CyclePolicy, Option<DurableState>),
    plan: &Plan,
    sources: Vec<SourceUse>,
) -> Result<Joined, Cause> {
    let (query, given) = {
        let mut state = shared.lock();
        let has_clock_timers = plan.has_clock_timers();
        let of_query = QueryState { durable, has_clock_timers, ..QueryState::new(policy) };
        let query = state.new_id();
        let given = of_query.given.clone();
        state.queries.insert(query, of_query);
        (query, given)
    };
    let subscription = Arc::new(Subscription { shared: Arc::clone(shared), query });
    let (mut views, mut opened, mut feeds) = (Vec::new(), Vec::new(), Vec::new());
    for (used, planned) in sources.into_iter().zip(&plan.sources) {
        let columns = (used.columns.len() != used.schema.fields().len()).then(|| used.columns.clone());
        let streams = planned.streams.clone();
        let (source, source_feed) = join_source(shared, query, used)?;
        opened.extend(source);
        let feed = Arc::new(FeedState::default());
        feed.read_from(&source_feed);
        feeds.push(Feed::shared(Arc::clone(&feed), Arc::clone(&subscription) as _));
        views.push(SourceView { columns, streams, feed });
    }
    Ok(Joined { query, given, subscription, views, opened, feeds })
}

impl Joined {
    /// The query takes part in the cycles from here on. The cut at which it begins; `None`: there was none.
    pub fn begins(&self) -> Option<Cut> {
        let shared = &self.subscription.shared;
        let (after, wakers) = shared.lock().begin(self.query, shared.clock.now_ns());
        shared.announce(&wakers);
        after
    }

    /// The query first reads cycles from the journal. It has none before it has read them.
    pub fn replays(&self) {
        self.given.replays(Some(0));
        let mut state = self.subscription.shared.lock();
        if let Some(durable) = state.queries.get_mut(&self.query).and_then(|query| query.durable.as_mut()) {
            durable.is_replaying = true;
        }
    }

    /// Starts the query, and then the sources that were opened for it.
    pub fn run(
        self,
        engine: Engine,
        plan: Plan,
        sinks: Vec<Box<dyn Sink>>,
        resume: Resume,
        replay: Option<QueryReplay>,
    ) -> Result<ClockRun, Cause> {
        let Joined { query, given, subscription, views, opened, feeds } = self;
        let shared = &subscription.shared;
        let begins_after = resume.after.as_ref().map(|cut| cut.cycle);
        let position = QueryPosition::new(shared, given);
        let cycles = QueryCycles { shared: Arc::clone(shared), query, sources: views, replay };
        let engine = engine.clock(Arc::clone(&shared.clock)).resume(resume).cycles_from(Box::new(cycles));
        let running = engine.run(plan, sinks)?;
        for source in opened {
            shared.read(Arc::clone(&source.feed), reading(shared, source));
        }
        Ok(ClockRun { running, feeds, begins_after, position })
    }
}

/// Lets a query read a source, and opens it if nobody else does.
fn join_source(
    shared: &Arc<ClockShared>,
    query: u64,
    used: SourceUse,
) -> Result<(Option<OpenedSource>, Arc<FeedState>), Cause> {
    let SourceUse { name, key, waits_max, open, schema, durable, .. } = used;
    {
        let mut state = shared.lock();
        let found = key.as_ref().and_then(|key| state.source_of(key));
        if let Some((id, source)) = found.and_then(|id| Some((id, state.sources.get_mut(&id)?))) {
            source.queries.push(query);
            let feed = Arc::clone(&source.feed);
            state.queries.entry(query).and_modify(|query| query.sources.push(id));
            return Ok((None, feed));
        }
    }
    let (mut source, settings) = open()?;
    let feed = Arc::new(FeedState::default());
    feed.set_source(&name);
    let mut of_clock = SourceState::new(&name, key, waits_max, Arc::clone(&feed));
    let mut journal = None;
    if let Some(durable) = durable {
        let (opened, of_source) = open_journal(shared, (&mut *source, &settings, &schema), durable)?;
        of_clock = of_clock.journaled(of_source, opened.mark);
        journal = Some(opened);
    }
    of_clock.queries.push(query);
    let mut state = shared.lock();
    let id = state.new_id();
    state.sources.insert(id, of_clock);
    state.queries.entry(query).and_modify(|query| query.sources.push(id));
    Ok((Some(OpenedSource { id, source, settings, feed: Arc::clone(&feed), schema, journal }), feed))
}

/// Opens the journal of a source, which continues where it was at the last cut.
fn open_journal(
    shared: &Arc<ClockShared>,
    (source, settings, schema): (&mut dyn Source, &FeedSettings, &SchemaRef),
    durable: DurableUse,
) -> Result<(OpenedJournal, SourceJournal), Cause> {
    let log = shared.journal.as_ref().ok_or_else(|| Cause::bug("the clock has no journal"))?;
    let known = log.place_of(&durable.stream);
    let named = known.and_then(|source| Some(shared.lock().marks.get(source)?.position)).unwrap_or(0);
    if named > 0 && !log.has_source(&durable.stream)? {
        return Err(gone(&durable.stream, named));
    }
    let (index, mut writer, reader) = log.open_source(&durable.stream, source.schema(), &durable.settings)?;
    if durable.is_transactional {
        let committed = shared.lock().marks.get(index).map_or(0, |mark| mark.position);
        writer.discard_from(committed.max(writer.progress().first()))?;
    }
    writer.check_end(named)?;
    if !writer.offsets().is_empty() {
        source.resume(writer.offsets())?;
    }
    let mark = shared.lock().mark_of(index, writer.progress().first()..writer.end())?;
    writer.note_opening()?;
    let waits = durable.sync != SyncPolicy::Never;
    let place = (durable.stream.as_str(), log.in_cuts(index), waits);
    let of_source = SourceJournal::new(place, writer.progress(), (settings, schema), &reader);
    Ok((OpenedJournal { stream: (writer, reader), durable, mark }, of_source))
}

/// More than a crash can take: a journal has its first file before it has a row.
fn gone(source: &str, position: u64) -> Cause {
    Cause::operation(format!(
        "the journal of source '{source}' is missing, but its cycles go up to position {position}. Restore the \
         journal's folder, or DROP the source and create it again"
    ))
}

/// Starts the threads of a source. If they cannot be started, the source fails.
fn reading(shared: &Arc<ClockShared>, opened: OpenedSource) -> StartReading {
    let shared = Arc::clone(shared);
    Box::new(move || {
        let (id, feed) = (opened.id, Arc::clone(&opened.feed));
        match start_reading(&shared, opened) {
            Ok((feed, threads)) => Some(ReadSource { feed, threads }),
            Err(cause) => {
                feed.stop();
                ClockEntry { shared, source: id, held_back: HeldBack::default() }.fail(cause);
                None
            }
        }
    })
}

type Reading = (Arc<FeedState>, Vec<std::thread::JoinHandle<()>>);

fn start_reading(shared: &Arc<ClockShared>, opened: OpenedSource) -> Result<Reading, Cause> {
    let OpenedSource { id, source, settings, feed, schema, journal } = opened;
    // Late rows are kept for the queries that read them.
    let streams = [Arc::clone(&schema), schema];
    let held_back = HeldBack::default();
    let entry = ClockEntry { shared: Arc::clone(shared), source: id, held_back };
    let Some(OpenedJournal { stream, durable, mark }) = journal else {
        let feeder = Feeder::new(source, (entry, &streams), &settings, Instant::now(), Arc::clone(&feed));
        return Ok((feed, vec![spawn("feed", move || feeder.run())?]));
    };
    let start = FeedStart {
        position: mark.position,
        watermark: mark.watermark,
        replay_end: mark.position,
        replay_watermark: mark.watermark,
        skipped: Default::default(),
        now: Instant::now(),
        clock: Arc::clone(&shared.clock),
    };
    let DurableUse { settings: stream_settings, sync, .. } = durable;
    let source = DurableSource { source, feed: settings, stream: stream_settings, sync };
    let (writer, forwarder) = parts(source, stream, (entry, &streams), (BATCHES_HANDED_ON, &feed), start);
    let intake = spawn("intake", move || writer.run())?;
    Ok((feed, vec![intake, spawn("forward", move || forwarder.run())?]))
}
