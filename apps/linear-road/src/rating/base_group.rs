//! The base group: a few expressways, run once through the minutes before the window.

use std::sync::Arc;

use parking_lot::Mutex;
use thiserror::Error;
use tidemill_engine::{
    CyclePolicy, Engine, FlowError, Gateway, Operator, Snapshot, SnapshotReader, StateSource, Stopped,
};

use super::check::RightAnswers;
use super::clone::BaseState;
use super::feeder::Spans;
use super::sink::CollectingSink;
use super::window::Window;
use crate::accounts::{Accounts, pages};
use crate::event::{Event, HistoryRow, VID_MAX, XWAY_MAX};
use crate::expenditures::history::History;
use crate::generator::{Generator, GeneratorConfig, GeneratorError};
use crate::intake::EventColumns;
use crate::query::{self, ACCOUNTS, Partitions, TOLLS};
use crate::tolls::Tolls;

/// The number of events pushed at once while the group is run.
const EVENTS_PER_CHUNK: usize = 8192;

/// A rating that is not possible.
#[derive(Debug, Error)]
pub enum RatingError {
    /// The generator's settings.
    #[error(transparent)]
    Generator(#[from] GeneratorError),
    /// The engine stopped.
    #[error(transparent)]
    Flow(#[from] FlowError),
    /// The options contradict each other.
    #[error("{0}")]
    Options(String),
    /// It was told to stop.
    #[error("the rating was interrupted")]
    Interrupted,
    /// A part of the engine's snapshot is missing or damaged, which is a bug.
    #[error("the base group's snapshot cannot be used: {0}")]
    Snapshot(String),
}

impl From<Stopped> for RatingError {
    fn from(stopped: Stopped) -> Self {
        RatingError::Options(stopped.to_string())
    }
}

/// The base group's settings, and the minutes to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseOptions {
    /// Expressways that are generated; all others are copies of them.
    pub expressways: u16,
    /// Seed of the generator.
    pub seed: u64,
    /// Minutes of the run before the window.
    pub minutes_before: u16,
    /// Minutes of the window.
    pub minutes: u16,
    /// Worker threads.
    pub workers: usize,
    /// Partitions of vehicles.
    pub vehicle_partitions: u32,
}

impl Default for BaseOptions {
    fn default() -> Self {
        BaseOptions {
            expressways: 8,
            seed: 1,
            minutes_before: 170,
            minutes: 10,
            workers: 1,
            vehicle_partitions: 64,
        }
    }
}

impl BaseOptions {
    /// The traffic of the group: the minutes up to the window's end of a three-hour run.
    pub fn traffic(&self) -> GeneratorConfig {
        GeneratorConfig {
            expressways: self.expressways,
            minutes: self.minutes_before + self.minutes,
            curve_minutes: Some(180),
            seed: self.seed,
            ..GeneratorConfig::default()
        }
    }
}

/// A base group, ready to be cloned.
#[derive(Debug)]
pub struct BaseGroup {
    /// How ids of copies are shifted.
    pub spans: Spans,
    /// Partitions of vehicles, in the base group as in its clones.
    pub vehicle_partitions: u32,
    /// Its state at the window's beginning.
    pub state: Arc<BaseState>,
    /// Its events in the window.
    pub window: Arc<Window>,
    /// The answers to them.
    pub right: Arc<RightAnswers>,
    /// The history that its queries ask for.
    pub history: Vec<HistoryRow>,
    /// Accounts that are not 0.
    pub accounts: usize,
}

impl BaseGroup {
    /// Generates the group, runs it through the minutes before the window and through the window. `progress` receives
    /// the minutes done.
    ///
    /// # Errors
    /// If the options are out of range, or the engine fails.
    pub fn prepare(options: &BaseOptions, mut progress: impl FnMut(u16)) -> Result<Self, RatingError> {
        let first_second = options.minutes_before * 60;
        let partitions =
            Partitions { expressways: options.expressways.into(), vehicles: options.vehicle_partitions };
        let generator = Generator::new(options.traffic())?;
        let right = Arc::new(Mutex::new(RightAnswers::default()));
        let sink = CollectingSink { right: Arc::clone(&right), from_second: first_second };
        let engine = Engine::new().workers(options.workers).cycles(CyclePolicy::default());
        // Expenditures are looked up in the history, which grows while it is generated: they are added below.
        let plan = query::plan(partitions, Arc::new(History::default()));
        let mut running = engine.run(plan, vec![Box::new(sink)])?;
        let gateway = running.gateway(0).ok_or_else(|| RatingError::Options("no gateway".into()))?;

        let mut feed = BaseFeed { generator, gateway, columns: EventColumns::default(), events: Vec::new() };
        for minute in 1..=options.minutes_before {
            for _ in 0..60 {
                feed.next_second()?;
            }
            progress(minute);
        }
        let snapshot = running.snapshot()?;
        let mut window = Window::new(first_second);
        while let Some(events) = feed.next_second()? {
            window.push_second(events);
            if window.seconds().is_multiple_of(60) {
                progress(options.minutes_before + (window.seconds() / 60) as u16);
            }
        }
        let BaseFeed { generator, gateway, .. } = feed;
        drop(gateway);
        running.join()?;
        let history = generator.history().to_vec();
        let mut right = std::mem::take(&mut *right.lock());
        right.kinds[crate::answers::EXPENDITURES] = expenditures(&window, &history);
        let span = pages::PAGE * options.vehicle_partitions;
        let spans = Spans {
            expressways: options.expressways,
            vids: generator.vehicle_count().next_multiple_of(span),
            qids: generator.query_count(),
        };
        let state = restore(&snapshot, partitions)?;
        let accounts = state.accounts.iter().map(Accounts::account_count).sum();
        Ok(BaseGroup {
            spans,
            vehicle_partitions: options.vehicle_partitions,
            state: Arc::new(state),
            window: Arc::new(window),
            right: Arc::new(right),
            history,
            accounts,
        })
    }

    /// The most expressways for which there are enough ids.
    pub fn expressways_max(&self) -> u16 {
        let copies = (VID_MAX / self.spans.vids).min(u32::from(XWAY_MAX / self.spans.expressways));
        copies as u16 * self.spans.expressways
    }

    /// How many copies serve this many expressways.
    ///
    /// # Errors
    /// If ids would not fit.
    pub fn copies_for(&self, expressways: u16) -> Result<u16, RatingError> {
        let most = self.expressways_max();
        if expressways == 0 || expressways > most {
            return Err(RatingError::Options(format!(
                "{expressways} expressways cannot be rated: there are vehicle and expressway ids for 1 to {most}"
            )));
        }
        Ok(expressways.div_ceil(self.spans.expressways))
    }

    /// The history of this many copies.
    pub fn history_of(&self, copies: u16) -> History {
        let rows = (0..copies).flat_map(|copy| {
            self.history.iter().map(move |row| HistoryRow {
                vid: row.vid + u32::from(copy) * self.spans.vids,
                xway: row.xway + copy * self.spans.expressways,
                ..*row
            })
        });
        History::new(rows)
    }
}

/// Generates the group's traffic and pushes it, second by second.
struct BaseFeed {
    generator: Generator,
    gateway: Gateway,
    columns: EventColumns,
    events: Vec<Event>,
}

impl BaseFeed {
    /// The events of the next second, which were pushed; `None` at the end.
    fn next_second(&mut self) -> Result<Option<&[Event]>, RatingError> {
        self.events.clear();
        if !self.generator.next_second(&mut self.events) {
            return Ok(None);
        }
        for part in self.events.chunks(EVENTS_PER_CHUNK) {
            part.iter().for_each(|event| self.columns.push(event));
            self.gateway.push(self.columns.take())?;
        }
        Ok(Some(&self.events))
    }
}

fn expenditures(window: &Window, history: &[HistoryRow]) -> Vec<super::check::Answer> {
    let history = History::new(history.iter().copied());
    let answer = |query: &crate::event::ExpenditureQuery| {
        let toll = history.toll(query.vid, query.day, query.xway)?;
        Some((query.qid, query.time, 0, u64::from(toll)))
    };
    window.expenditures.iter().filter_map(|(_, query)| answer(query)).collect()
}

fn restore(snapshot: &Snapshot, partitions: Partitions) -> Result<BaseState, RatingError> {
    let mut tolls: Vec<Tolls> =
        (0..partitions.expressways).map(|_| Tolls::new(partitions.expressways)).collect();
    let mut accounts: Vec<Accounts> =
        (0..partitions.vehicles).map(|partition| Accounts::new(partition, partitions.vehicles)).collect();
    for (partition, operator) in tolls.iter_mut().enumerate() {
        restore_one(snapshot, TOLLS, partition, operator)?;
    }
    for (partition, operator) in accounts.iter_mut().enumerate() {
        restore_one(snapshot, ACCOUNTS, partition, operator)?;
    }
    Ok(BaseState { tolls, accounts })
}

fn restore_one(
    snapshot: &Snapshot,
    name: &str,
    partition: usize,
    operator: &mut dyn Operator,
) -> Result<(), RatingError> {
    let error = |cause: &dyn std::fmt::Display| RatingError::Snapshot(format!("{name} {partition}: {cause}"));
    let bytes = snapshot.partition(name, partition as u32).ok_or_else(|| error(&"missing"))?;
    let mut reader = SnapshotReader::new(&bytes).map_err(|cause| error(&cause))?;
    operator.restore(&mut reader).map_err(|cause| error(&cause))
}
