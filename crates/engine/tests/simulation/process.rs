//! A run of the query in one process: the parts of a durable query that threads drive in production, on a simulated disk.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tidemill_core::error::Cause;
use tidemill_core::{Clock, ManualClock, Sink};
use tidemill_journal::{Journal, StreamReader, StreamSettings};
use tidemill_plan::Plan;

use super::flow::{Flow, Gateway};
use super::oracle::DELAY_NS;
use super::world::{SimulatedSink, SimulatedSource, World, schema};
use crate::durable::forward::Forwarder;
use crate::durable::maintenance::Maintained;
use crate::durable::opening::{self, Opened};
use crate::durable::recovery::Recovered;
use crate::durable::write::Writer;
use crate::durable::{Durability, DurableSource, feed};
use crate::feed_settings::{EventTime, FeedSettings};
use tidemill_testing::fault_disk::FaultDisk;
use tidemill_testing::random::Random;

pub const FOLDER: &str = "/journal";
/// What stays the same over all runs of a query.
#[derive(Clone, Debug)]
pub struct Settings {
    pub stream: StreamSettings,
    pub cut_segment_bytes: u64,
    /// How many batches a feed hands on without the journal.
    pub batches_handed_on: usize,
    pub idle_after: Option<Duration>,
}

impl Settings {
    pub fn random(random: &mut Random) -> Settings {
        let bytes_max = if random.is_once_in(4) { 20_000 + random.below(20_000) } else { 1 << 30 };
        // From one record in each segment to a few dozen.
        let segment_bytes = |random: &mut Random| match random.below(3) {
            0 => 512,
            1 => 512 + random.below(3000),
            _ => 4096 + random.below(8192),
        };
        let stream = StreamSettings {
            segment_bytes: segment_bytes(random),
            bytes_max,
            retain_bytes: if random.is_once_in(4) { random.below(8192) } else { 0 },
            ..StreamSettings::default()
        };
        let idle_after = random.is_once_in(2).then_some(Duration::from_millis(5));
        Settings {
            stream,
            cut_segment_bytes: segment_bytes(random),
            batches_handed_on: 1 + random.below(4) as usize,
            idle_after,
        }
    }
}

pub struct Process {
    /// `None`: the source has ended.
    pub writers: Vec<Option<Writer>>,
    pub forwarders: Vec<Option<Forwarder<Gateway>>>,
    pub flow: Flow,
    pub kept: Maintained,
    pub recovered: Recovered,
}

/// The moment of a clock, for what counts in moments.
pub fn moment(base: Instant, clock: &ManualClock) -> Instant {
    use tidemill_core::clock::Clock;
    base + Duration::from_nanos(clock.now_ns())
}

impl Process {
    /// Starts the query, or continues with it; some sinks may be `away`. `look` is shown the journals before anything is done with them.
    pub fn start(
        disk: &FaultDisk,
        world: &Arc<Mutex<World>>,
        settings: &Settings,
        (base, clock): (Instant, &Arc<ManualClock>),
        (random, may_be_away): (&mut Random, bool),
        mut look: impl FnMut(usize, &mut StreamReader, (u64, u64)),
    ) -> Result<Process, Cause> {
        for sink in &mut world.lock().sinks {
            sink.reopened(may_be_away && random.is_once_in(3));
        }
        let journal = open_journal(disk, settings)?;
        let (plan, mut sinks, mut sources) = parts(world, settings, random);
        let mut opened =
            opening::open(journal, &plan, &Durability::new("simulated"), &mut sinks, &mut sources)?;
        for (index, (_, reader)) in opened.streams.iter_mut().enumerate() {
            let progress = &opened.kept.progress[index];
            look(index, reader, (progress.first(), progress.end()));
        }
        Ok(Process::of(opened, sources, settings, (base, clock)))
    }

    fn of(
        opened: Opened,
        sources: Vec<DurableSource>,
        settings: &Settings,
        (base, clock): (Instant, &Arc<ManualClock>),
    ) -> Process {
        let time: Arc<dyn Clock> = Arc::clone(clock) as _;
        let start = |source| opened.start_of(source, moment(base, clock), &time);
        let starts: Vec<_> = (0..sources.len()).map(start).collect();
        let Opened { streams, kept, resume, state, recovered, .. } = opened;
        let gateway = || Gateway { chunks: Arc::default(), clock: Arc::clone(clock) };
        let gateways: Vec<Gateway> = sources.iter().map(|_| gateway()).collect();
        let (mut writers, mut forwarders) = (Vec::new(), Vec::new());
        for (index, ((source, stream), start)) in sources.into_iter().zip(streams).zip(starts).enumerate() {
            let gateway = (gateways[index].clone(), &[schema(), schema()][..]);
            let parts =
                feed::parts(source, stream, gateway, (settings.batches_handed_on, &Arc::default()), start);
            writers.push(Some(parts.0));
            forwarders.push(Some(parts.1));
        }
        let flow = Flow::new(&gateways, resume, state.as_ref(), kept.cuts.clone());
        Process { writers, forwarders, flow, kept, recovered }
    }
}

pub fn open_journal(disk: &FaultDisk, settings: &Settings) -> Result<Journal, Cause> {
    let journal = Journal::open_on(Arc::new(disk.clone()), Path::new(FOLDER))?;
    journal.cuts_in_segments(settings.cut_segment_bytes)?;
    Ok(journal)
}

/// The query, as a process begins with it.
pub fn parts(
    world: &Arc<Mutex<World>>,
    settings: &Settings,
    random: &mut Random,
) -> (Plan, Vec<Box<dyn Sink>>, Vec<DurableSource>) {
    let sources = sources(world, settings, random);
    let sink_count = world.lock().sinks.len();
    let mut plan = Plan::new("simulated");
    for source in 0..sources.len() {
        plan.source(format!("source {source}"), [schema(), schema()]);
    }
    let mut sinks: Vec<Box<dyn Sink>> = Vec::new();
    for index in 0..sink_count {
        plan.sink(format!("sink {index}"), Vec::new());
        sinks.push(Box::new(SimulatedSink { world: Arc::clone(world), index }));
    }
    (plan, sinks, sources)
}

fn sources(world: &Arc<Mutex<World>>, settings: &Settings, random: &mut Random) -> Vec<DurableSource> {
    let mut state = world.lock();
    let event_time = Some(EventTime { column: 1, delay_ns: DELAY_NS });
    let mut sources = Vec::new();
    for (index, source) in state.sources.iter_mut().enumerate() {
        source.reopened(random);
        let simulated = SimulatedSource {
            world: Arc::clone(world),
            index,
            random: Random::new(random.next()),
            open: Vec::new(),
            opened: 0,
        };
        sources.push(DurableSource {
            source: Box::new(simulated),
            feed: FeedSettings { event_time, idle_after: settings.idle_after, ..FeedSettings::default() },
            stream: settings.stream.clone(),
            sync: source.sync,
        });
    }
    sources
}
