//! One schedule: steps of all parts in a random order, with faults and crashes between and within them; after each what
//! must be true is checked, and in the end the results.

mod arriving;
mod ending;
mod skipping;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::{RecvTimeoutError, TryRecvError};
use parking_lot::{Mutex, MutexGuard};
use tidemill_core::error::{Cause, Fault};
use tidemill_core::{CommitGuard, ManualClock};
use tidemill_journal::StreamReader;

use super::ledger::Ledger;
use super::process::{Process, Settings, moment};
use super::steps::{Crash, Step, tell};
use super::world::{SinkWorld, SourceWorld, World};
use crate::durable::protocol::AwaitedSync;
use crate::durable::write;
use tidemill_testing::fault_disk::FaultDisk;
use tidemill_testing::random::Random;

/// How often something has happened, so that it is seen that the schedules come by.
pub type Counts = BTreeMap<&'static str, u64>;

pub struct Schedule {
    random: Random,
    torn: Random,
    disk: FaultDisk,
    world: Arc<Mutex<World>>,
    settings: Settings,
    steps: u64,
    base: Instant,
    clock: Arc<ManualClock>,
    ledger: Ledger,
    fails_sync: bool,
    is_full: bool,
    sink_fails: bool,
    has_faults: bool,
    /// Whether a part has failed, and others continue for a moment: what it began may lie about.
    has_failed: bool,
    /// Whether the last process was stopped in order, with all that was taken in answered.
    is_stopped_whole: bool,
    /// Whether snapshots are frequent, and what they make superfluous goes after each step.
    is_eager: bool,
    pub counts: Counts,
    pub trace: Option<Vec<String>>,
}

impl Schedule {
    pub fn new(seed: u64, traced: bool) -> Schedule {
        let mut random = Random::new(seed);
        let is_long = random.is_once_in(10);
        let is_synced = !random.is_once_in(8);
        let count = 1 + random.below(3);
        let sources = (0..count).map(|_| SourceWorld::random(&mut random, is_synced, is_long));
        let sources: Vec<_> = sources.collect();
        let sinks: Vec<_> = (0..1 + random.below(2)).map(|_| SinkWorld::random(&mut random)).collect();
        let is_eager = random.is_once_in(2);
        let world = Arc::new(Mutex::new(World { sources, sinks }));
        let mut schedule = Schedule {
            torn: Random::new(random.next()),
            settings: Settings::random(&mut random),
            steps: if is_long { 1000 } else { 50 + random.below(350) },
            random,
            disk: FaultDisk::new(),
            base: Instant::now(),
            clock: Arc::default(),
            ledger: Ledger::new(Arc::clone(&world)),
            fails_sync: false,
            is_full: false,
            sink_fails: false,
            has_faults: true,
            has_failed: false,
            is_stopped_whole: false,
            is_eager,
            counts: Counts::new(),
            trace: traced.then(Vec::new),
            world,
        };
        schedule.tell_beginning();
        schedule
    }

    fn tell_beginning(&mut self) {
        let world = Arc::clone(&self.world);
        for (index, source) in world.lock().sources.iter().enumerate() {
            self.note(|| format!("source {index}: {:?}, sync {:?}", source.kind, source.sync));
        }
        for (index, sink) in world.lock().sinks.iter().enumerate() {
            let what = if sink.remembers { "remembers its last cycle" } else { "is noted by us" };
            self.note(|| format!("sink {index} {what}"));
        }
        let settings = self.settings.clone();
        self.note(|| format!("{settings:?}"));
    }

    fn note(&mut self, text: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(text());
        }
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock()
    }

    /// The whole schedule.
    pub fn run(&mut self) {
        let Some(mut process) = self.start() else { return };
        let mut weights = self.weights(&process);
        for _ in 0..self.steps {
            self.clock.advance_ns(self.random.below(3_000_000));
            self.disturb();
            let step = self.choose(&weights);
            let crash = match self.step(&mut process, step) {
                Ok(()) => self.random.is_once_in(80).then(|| self.random_crash()),
                Err(cause) => Some(self.failed(&mut process, step, &weights, &cause)),
            };
            if let Some(crash) = crash {
                self.crash(process, crash);
                self.skip();
                let Some(next) = self.start() else { return };
                process = next;
                weights = self.weights(&process);
            }
        }
        self.finish(process);
    }

    /// All steps, and how often each part has its turn: some are slow.
    fn weights(&mut self, process: &Process) -> Vec<(Step, u64)> {
        let sources = 0..process.writers.len();
        let mut steps: Vec<Step> =
            sources.flat_map(|index| [Step::Write(index), Step::Forward(index)]).collect();
        steps.extend((0..process.flow.sinks.len()).map(Step::Sink));
        steps.extend([Step::Cut, Step::Work]);
        let mut weight = |step| (step, [1, 4, 8, 12][self.random.below(4) as usize]);
        let mut weights: Vec<_> = steps.into_iter().map(&mut weight).collect();
        let seldom = [Step::SyncCuts, Step::AskSnapshot, Step::StoreSnapshot, Step::Release];
        let often = if self.is_eager { 8 } else { 1 };
        weights.extend(seldom.map(|step| (step, often * (1 + self.random.below(3)))));
        weights
    }

    fn choose(&mut self, weights: &[(Step, u64)]) -> Step {
        let mut at = self.random.below(weights.iter().map(|(_, weight)| weight).sum());
        let chosen = weights.iter().find(|(_, weight)| match at.checked_sub(*weight) {
            Some(rest) => {
                at = rest;
                false
            }
            None => true,
        });
        chosen.expect("a step").0
    }

    /// Lets something go wrong from now on.
    fn disturb(&mut self) {
        match self.random.below(600) {
            0..=3 => {
                let after = self.random.below(25);
                self.disk.halt(after);
                self.note(|| format!("* the machine halts after {after} more changes of the disk"));
            }
            4..=5 => {
                let after = self.random.below(4);
                self.disk.fail_sync(after);
                self.fails_sync = true;
                self.note(|| format!("* a sync fails after {after} more"));
            }
            6..=17 => {
                let left = self.random.below(500);
                self.disk.limit(self.disk.bytes() + left as usize);
                self.is_full = true;
                self.note(|| format!("* the disk has {left} bytes left"));
            }
            18..=37 if self.is_full => self.make_room(),
            _ => {}
        }
    }

    fn make_room(&mut self) {
        self.disk.limit(usize::MAX);
        self.is_full = false;
        self.note(|| "* the disk has room again".into());
    }

    fn random_crash(&mut self) -> Crash {
        [Crash::Kill, Crash::PowerLoss, Crash::PowerLoss, Crash::Stop][self.random.below(4) as usize]
    }

    /// A part has failed, which ends the process. The others hear of it a little later.
    fn failed(
        &mut self,
        process: &mut Process,
        failed: Step,
        weights: &[(Step, u64)],
        cause: &Cause,
    ) -> Crash {
        let crash = self.check_failure(cause);
        self.has_failed = true;
        for _ in 0..self.random.below(4) {
            let step = self.choose(weights);
            if step != failed
                && let Err(cause) = self.step(process, step)
            {
                self.check_failure(&cause);
                break;
            }
        }
        self.has_failed = false;
        crash
    }

    /// A part may fail only if something was done to it.
    fn check_failure(&mut self, cause: &Cause) -> Crash {
        self.note(|| format!("  failed: {cause:?}"));
        let is_full = self.is_full && cause.fault == Fault::Resource;
        let sync_failed = self.fails_sync && self.disk.has_failed_sync();
        let is_lost = cause.fault == Fault::Operation && self.ledger.has_lost_while_away();
        let excused = self.disk.is_halted() || sync_failed || is_full || self.sink_fails || is_lost;
        assert!(excused && cause.fault != Fault::Bug, "without a reason: {cause:?}");
        self.count(if is_full { "stopped by a full disk" } else { "stopped by a failure" });
        // What a failed sync leaves behind is anyone's guess.
        if self.random.is_once_in(2) { Crash::Kill } else { Crash::PowerLoss }
    }

    fn step(&mut self, process: &mut Process, step: Step) -> Result<(), Cause> {
        let result = match step {
            Step::Write(source) => self.write(process, source),
            Step::Forward(source) => self.forward(process, source),
            Step::Cut => self.cut(process),
            Step::Work => {
                process.flow.work();
                Ok(())
            }
            Step::Sink(sink) => self.sink(process, sink),
            Step::SyncCuts => process.kept.cuts.sync(),
            Step::AskSnapshot => {
                let flow = &mut process.flow;
                flow.wants_snapshot |= flow.snapshot.is_none() && process.kept.wants_snapshot();
                Ok(())
            }
            Step::StoreSnapshot => self.store_snapshot(process),
            Step::Release => process.kept.release(),
        };
        let releases = self.is_eager || step == Step::Release;
        let result = if self.is_eager { result.and_then(|()| process.kept.release()) } else { result };
        self.note(|| tell(step, process));
        if (releases || matches!(step, Step::Write(_))) && !self.disk.is_halted() {
            self.ledger.check_kept(process, releases && result.is_ok() && !self.has_failed);
            if process.kept.progress.iter().any(|progress| progress.first() > 0) {
                self.count("steps with rows removed");
            }
        }
        result
    }

    fn write(&mut self, process: &mut Process, index: usize) -> Result<(), Cause> {
        let Some(writer) = &mut process.writers[index] else { return Ok(()) };
        let now = moment(self.base, &self.clock);
        let result = writer.step(now);
        let is_held = matches!(result, Ok(write::Step::Wait(_)));
        self.ledger.written(process, index, (now, self.settings.idle_after), is_held);
        if std::mem::take(&mut self.world().sources[index].refused) > 0 {
            self.count("refused numbers");
        }
        match result? {
            write::Step::Ended(_) => process.writers[index] = None,
            write::Step::Wait(_) => self.count("writes that wait for room"),
            write::Step::Next => {}
        }
        Ok(())
    }

    fn forward(&mut self, process: &mut Process, index: usize) -> Result<(), Cause> {
        let Some(forwarder) = &mut process.forwarders[index] else { return Ok(()) };
        let received = forwarder.queue.try_recv().map_err(|error| match error {
            TryRecvError::Empty => RecvTimeoutError::Timeout,
            TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
        });
        let ended = forwarder.step(received)?;
        let chunks = forwarder.entry.gateway.chunks.lock().len();
        let now = moment(self.base, &self.clock);
        assert_eq!(forwarder.look_ahead(now), Ok(()));
        let went_on = forwarder.entry.gateway.chunks.lock().len() > chunks;
        let pushed = forwarder.entry.look_idle(now);
        assert_eq!(pushed, Ok(()));
        if ended.is_some() {
            process.forwarders[index] = None;
        }
        if went_on {
            self.count("time that went on without rows");
        }
        Ok(())
    }

    fn cut(&mut self, process: &mut Process) -> Result<(), Cause> {
        let flow = &mut process.flow;
        if flow.replay() {
            self.count("cycles made again");
        } else if !flow.has_ended {
            let cut = flow.cut(&mut self.random, self.has_faults)?;
            self.ledger.cuts.extend(cut);
        }
        Ok(())
    }

    fn sink(&mut self, process: &mut Process, index: usize) -> Result<(), Cause> {
        if self.world().sinks[index].is_away {
            return self.arrive(process, index);
        }
        let sink = &mut process.flow.sinks[index];
        if let Some(cycle) = sink.unnoted {
            let recorded = self.recorded(index, cycle, sink.progress.must_record());
            process.kept.guard.after_commit(index, cycle, recorded)?;
            self.ledger.noted[index] = Some(cycle);
            (sink.unnoted, sink.last) = (None, None);
            sink.progress.done(cycle);
            return Ok(());
        }
        let commits = sink.last.is_some() && self.random.is_once_in(2);
        if !commits && sink.prepare() {
            return Ok(());
        }
        let Some(cut) = sink.last.clone() else { return Ok(()) };
        let Some(cycles) = sink.progress.due(cut.cycle) else {
            sink.progress.done(cut.cycle);
            sink.last = None;
            process.kept.guard.passed(index, cut.cycle);
            return Ok(());
        };
        if let Some(AwaitedSync::Rows { .. }) = process.kept.guard.missing(&cut) {
            self.count("commits that waited for rows");
            return Ok(());
        }
        process.kept.guard.before_commit(&cut, &|| false)?;
        self.ledger.check_durable(process, &cut);
        let sink = &mut process.flow.sinks[index];
        let fails = self.has_faults && self.random.is_once_in(100);
        self.sink_fails |= fails;
        if !fails || self.random.is_once_in(2) {
            let prepared = std::mem::take(&mut sink.prepared);
            self.world.lock().sinks[index].commit(cycles, prepared, &mut self.random);
            sink.unnoted = Some(cut.cycle);
        }
        if fails { Err(Cause::operation("the sink does not answer")) } else { Ok(()) }
    }

    /// What a sink that has committed a cycle would tell a run which began now.
    fn recorded(&self, index: usize, cycle: u64, must_record: bool) -> Option<u64> {
        let sink = &mut self.world().sinks[index];
        if must_record {
            sink.record();
        }
        sink.unrecorded().map_or(Some(cycle), |first| first.checked_sub(1))
    }

    fn store_snapshot(&mut self, process: &mut Process) -> Result<(), Cause> {
        let Some(state) = process.flow.snapshot.take() else { return Ok(()) };
        let what = if process.kept.store(state, std::time::Instant::now())? {
            "snapshots"
        } else {
            "snapshots without room"
        };
        self.count(what);
        Ok(())
    }

    fn crash(&mut self, mut process: Process, crash: Crash) {
        self.note(|| format!("* {crash:?}"));
        self.count(match crash {
            Crash::Kill => "kills",
            Crash::PowerLoss => "losses of power",
            Crash::Stop => "stops",
        });
        self.is_stopped_whole = crash == Crash::Stop && self.stop(&mut process).unwrap_or(false);
        self.ledger.ended(&process);
        drop(process);
        self.lose(crash == Crash::PowerLoss);
    }

    /// Takes what the disk loses, and ends what was done to it.
    fn lose(&mut self, power: bool) {
        self.disk = if power { self.disk.power_loss(&mut self.torn) } else { self.disk.killed() };
        if power {
            self.ledger.power_lost();
            self.is_stopped_whole = false;
        }
        (self.fails_sync, self.sink_fails) = (false, false);
        self.is_full &= !power;
    }

    /// Starts the query until it runs; `None`: it refuses to, and rightly, because rows are lost that nobody synced.
    fn start(&mut self) -> Option<Process> {
        loop {
            if self.has_faults && self.random.is_once_in(6) {
                let after = self.random.below(40);
                self.disk.halt(after);
                self.note(|| format!("* the machine halts after {after} changes of the disk"));
            }
            let mut random = Random::new(self.random.next());
            // Without faults, one that lacks cycles is not waited for.
            let may_be_away = random.is_once_in(2) && (self.has_faults || !self.ledger.has_lost_while_away());
            let random = (&mut random, may_be_away);
            let clock = (self.base, &self.clock);
            let (ledger, looks) = (&self.ledger, self.random.is_once_in(4));
            let look = |source: usize, reader: &mut StreamReader, range| {
                if looks {
                    ledger.check_journal(source, reader, range);
                }
            };
            match Process::start(&self.disk, &self.world, &self.settings, clock, random, look) {
                Ok(process) => {
                    self.tell_start(&process);
                    let replayed = process.recovered.cycles;
                    let is_one_away = self.world().sinks.iter().any(|sink| sink.is_away);
                    assert!(
                        !self.is_stopped_whole || replayed == 0 || is_one_away,
                        "{replayed} cycles after a stop in order"
                    );
                    self.is_stopped_whole = false;
                    self.ledger.started(&process, moment(self.base, &self.clock));
                    return Some(process);
                }
                Err(cause) if self.disk.is_halted() => {
                    self.note(|| format!("  the start failed: {cause:?}"));
                    self.count("crashes of a start");
                    let power = self.random.is_once_in(2);
                    self.lose(power);
                }
                Err(Cause { fault: Fault::Resource, .. }) if self.is_full => self.make_room(),
                Err(cause) => {
                    self.note(|| format!("  refused: {cause:?}"));
                    let is_right = self.ledger.has_lost_commits(&self.disk.killed(), &self.settings);
                    assert!(is_right, "it refuses to go on: {cause}");
                    self.count("refused, for rows are lost that nobody synced");
                    return None;
                }
            }
        }
    }

    fn tell_start(&mut self, process: &Process) {
        let Process { recovered, kept, .. } = process;
        let ends: Vec<u64> = kept.progress.iter().map(|progress| progress.end()).collect();
        let (cuts_end, cuts_had) = (kept.cuts.end(), self.ledger.cuts.len() as u64);
        self.note(|| format!("> goes on: rows {ends:?}, cuts {cuts_end} of {cuts_had}, {recovered:?}"));
        if recovered.cuts_forgotten > 0 {
            self.count("starts that forget cuts");
        }
        if cuts_end < cuts_had {
            self.count("starts without the last cuts");
        }
        if recovered.snapshot.is_some() {
            self.count("starts from a snapshot");
        }
    }
}
