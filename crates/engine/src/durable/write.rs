//! Taking in: from the source into its journal, synced as promised, then acknowledged.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use parking_lot::Mutex;
use tidemill_core::arrow::array::RecordBatch;
use tidemill_core::error::{Cause, Fault};
use tidemill_core::{Clock, Faults, Outage, OutageReport, Polled, Request, SourceOffset, Stretch};
use tidemill_flow::guard;
use tidemill_journal::{Record, StreamWriter};
use tracing::warn;

use super::SyncPolicy;
use super::feed_start::FeedStart;
use super::protocol::{AcknowledgeStep, IntakeProgress};
use crate::feed_state::FeedState;
use crate::source_reader::{POLL_WAIT, SourceReader};

/// How long to wait before asking for room again.
const ROOM_WAIT: Duration = Duration::from_millis(5);
/// The same on a full disk, where each time is an attempt to write.
const DISK_WAIT: Duration = Duration::from_secs(1);

/// A journal that is full for a moment only keeps up with its sinks.
const FULL_JOURNAL_PATIENCE: Duration = Duration::from_secs(1);

/// What the taking in tells the forwarder, which has the gateway.
pub(crate) struct WriterReport {
    end: Mutex<Option<Result<bool, Cause>>>,
    reached: Mutex<(u64, i64)>,
    idle_from: Mutex<Option<u64>>,
}

impl Default for WriterReport {
    fn default() -> Self {
        WriterReport {
            end: Mutex::default(),
            reached: Mutex::new((0, i64::MIN)),
            idle_from: Mutex::default(),
        }
    }
}

impl WriterReport {
    /// True: the source has ended; false: it was stopped before.
    pub fn get(&self) -> Result<bool, Cause> {
        self.lock().clone().unwrap_or(Ok(false))
    }

    /// A position, and how far the event time of the source is there: every row from there on was, or will be, written with
    /// this time or a later one.
    pub fn reached(&self) -> (u64, i64) {
        *self.reached.lock()
    }

    /// The position from which the source has said to be idle. It is not idle any more if something is written behind it.
    pub fn idle_from(&self) -> Option<u64> {
        *self.idle_from.lock()
    }

    fn is_idle_from(&self, position: u64) {
        *self.idle_from.lock() = Some(position);
    }

    fn reach(&self, position: u64, time_ns: i64) {
        *self.reached.lock() = (position, time_ns);
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Option<Result<bool, Cause>>> {
        self.end.lock()
    }
}

/// The outcome of one step of taking in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Next,
    /// There is no room: the next step can wait.
    Wait(Duration),
    /// True: the source has ended; false: it was stopped or left before.
    Ended(bool),
}

pub(crate) struct Writer {
    reader: SourceReader,
    journal: StreamWriter,
    taking: IntakeProgress,
    /// Rows for which the disk had no room.
    held: Option<UnwrittenRows>,
    /// The offsets of the source that have changed since the last record.
    offsets: BTreeMap<u64, Option<Vec<u8>>>,
    /// Batches that are handed on directly instead of through the journal, as long as there is room.
    queue: Sender<Record>,
    clock: Arc<dyn Clock>,
    state: Arc<FeedState>,
    told: Arc<WriterReport>,
    synced_at: Instant,
    /// The disk has no room.
    full_disk: Outage,
    /// The journal has no room: rows that some sink has not committed fill it.
    full_journal: Outage,
}

/// Rows on their way into the journal.
struct UnwrittenRows {
    rows: RecordBatch,
    request: Option<Request>,
    stretches: Vec<Stretch>,
}

impl Writer {
    pub fn new(
        reader: SourceReader,
        journal: StreamWriter,
        policy: SyncPolicy,
        queue: Sender<Record>,
        (state, told): (Arc<FeedState>, Arc<WriterReport>),
        start: FeedStart,
    ) -> Self {
        // A source that has offsets continues after its rows by itself.
        let gives_all_again = reader.source.is_repeatable() && journal.offsets().is_empty();
        let taking = IntakeProgress::new(policy, gives_all_again, journal.end());
        let FeedStart { clock, now: synced_at, .. } = start;
        Writer {
            reader,
            journal,
            taking,
            held: None,
            offsets: BTreeMap::new(),
            queue,
            clock,
            state,
            told,
            synced_at,
            full_disk: Outage::default(),
            full_journal: Outage::longer_than(FULL_JOURNAL_PATIENCE),
        }
    }

    pub fn run(mut self) {
        let ended = guard(|| self.take_in());
        *self.told.lock() = Some(ended);
    }

    fn take_in(&mut self) -> Result<bool, Cause> {
        loop {
            match self.step(Instant::now())? {
                Step::Next => {}
                Step::Wait(wait) => self.sleep(wait),
                Step::Ended(at_end) => return Ok(at_end),
            }
        }
    }

    fn sleep(&self, wait: Duration) {
        let until = Instant::now() + wait;
        while Instant::now() < until && !self.state.is_stopped() {
            std::thread::sleep(ROOM_WAIT);
        }
    }

    /// Takes in what the source has next, or checks for room.
    pub fn step(&mut self, now: Instant) -> Result<Step, Cause> {
        if self.held.is_some() {
            return self.write(now);
        }
        if self.state.is_stopped() {
            self.sync(now)?;
            return Ok(Step::Ended(false));
        }
        if !self.journal.has_room()? {
            // What is no longer needed is removed with the next sync.
            self.sync(now)?;
            self.tell_of_full_journal(now);
            return Ok(Step::Wait(ROOM_WAIT));
        }
        if let Some(told) = self.full_journal.over(now) {
            warn!(source = self.state.source(), after = ?told.lasted, "the journal has room again; intake continues");
        }
        let polled = self.reader.poll(self.poll_wait(now), &self.state)?;
        match polled {
            Polled::Rows(rows) => self.take(rows, None, now),
            Polled::Request { rows, request } => self.take(rows, Some(request), now),
            Polled::Nothing | Polled::Idle => {
                let is_idle = matches!(polled, Polled::Idle);
                self.reader.hear_nothing(now, is_idle);
                self.tell_reached();
                if is_idle {
                    self.told.is_idle_from(self.journal.end());
                }
                self.settle(now, false)
            }
            Polled::Ended | Polled::Left => {
                self.sync(now)?;
                Ok(Step::Ended(matches!(polled, Polled::Ended)))
            }
        }
    }

    /// How long the source may wait for rows: not at all while others wait for a sync.
    fn poll_wait(&self, now: Instant) -> Duration {
        let until_sync = self.taking.until_sync(now.saturating_duration_since(self.synced_at));
        until_sync.map_or(POLL_WAIT, |wait| wait.min(POLL_WAIT))
    }

    fn take(&mut self, rows: RecordBatch, request: Option<Request>, now: Instant) -> Result<Step, Cause> {
        self.reader.rows_came(now);
        let last = request.as_ref().and_then(|request| self.journal.last_of(&request.client));
        let place = request.as_ref().zip(last).map(|(request, last)| request.sequence.cmp(&last));
        if let (Some(Ordering::Less), Some(last)) = (place, last) {
            self.reader.source.refuse(last);
        }
        let is_repeated = matches!(place, Some(Ordering::Less | Ordering::Equal));
        let offsets = self.reader.source.offsets();
        self.offsets.extend(offsets.into_iter().map(|offset| (offset.part, offset.at)));
        let known = self.taking.given(rows.num_rows() as u64, is_repeated);
        // Before it is journaled: a replay must not decide again what depends on the clock.
        let known_rows = known.map_or(rows.num_rows(), |known| known as usize);
        let (rows, stretches) = self.reader.take(&rows, known_rows, &self.state)?;
        if known.is_none() {
            return self.settle(now, true);
        }
        if rows.num_rows() == 0 {
            self.taking.written();
            self.tell_reached();
            return self.settle(now, true);
        }
        self.held = Some(UnwrittenRows { rows, request, stretches });
        self.write(now)
    }

    /// Tells the forwarder how far event time is behind all that is written. Nothing waits to be written.
    fn tell_reached(&self) {
        if let Some(time_ns) = self.reader.time_ns() {
            self.told.reach(self.journal.end(), time_ns);
        }
    }

    /// Writes the rows that are held. A full disk holds back the senders, as a full journal does.
    fn write(&mut self, now: Instant) -> Result<Step, Cause> {
        let Some(UnwrittenRows { rows, request, stretches }) = self.held.take() else {
            return Ok(Step::Next);
        };
        let (start, arrived_ns) = (self.journal.end(), self.clock.now_ns());
        let changed = |(part, at): (&u64, &Option<Vec<u8>>)| SourceOffset { part: *part, at: at.clone() };
        let offsets: Vec<SourceOffset> = self.offsets.iter().map(changed).collect();
        match self.journal.append_from(&rows, arrived_ns, request.as_ref(), &offsets, &stretches) {
            Ok(_) => self.offsets.clear(),
            Err(Cause { fault: Fault::Resource, message: reason, .. }) if !self.state.is_stopped() => {
                self.held = Some(UnwrittenRows { rows, request, stretches });
                self.tell_of_full_disk(&reason, now);
                self.settle(now, false)?;
                return Ok(Step::Wait(DISK_WAIT));
            }
            Err(cause) => return Err(cause),
        }
        if let Some(told) = self.full_disk.over(now) {
            let (source, OutageReport { attempts, lasted }) = (self.state.source(), told);
            warn!(source, attempts, after = ?lasted, "the journal's disk has space again; intake continues");
        }
        self.taking.written();
        self.state.add_rows(&rows);
        // If there is no room, the forwarder reads it from the journal.
        let _ = self.queue.try_send(Record { start, rows, arrived_ns, request: None, stretches });
        self.tell_reached();
        self.settle(now, true)
    }

    /// Syncs and acknowledges, if it is time.
    fn settle(&mut self, now: Instant, has_more: bool) -> Result<Step, Cause> {
        match self.taking.settle(now.saturating_duration_since(self.synced_at), has_more) {
            AcknowledgeStep::Nothing => {}
            AcknowledgeStep::Sync => self.sync(now)?,
            AcknowledgeStep::Acknowledge => {
                self.journal.check_there()?;
                self.acknowledge();
            }
        }
        Ok(Step::Next)
    }

    fn sync(&mut self, now: Instant) -> Result<(), Cause> {
        self.journal.sync()?;
        self.synced_at = now;
        self.acknowledge();
        Ok(())
    }

    fn acknowledge(&mut self) {
        self.reader.source.acknowledge(self.taking.acknowledge());
    }

    fn tell_of_full_disk(&mut self, reason: &str, now: Instant) {
        if let Some(OutageReport { attempts, lasted }) = self.full_disk.failed(now) {
            // The first time, users see it among the notices, which are logged, too.
            if attempts == 1 {
                let mut faults = Faults::default();
                faults.notice(format!("intake pauses, because the journal's disk has no space: {reason}"));
                self.state.add_faults(faults);
                return;
            }
            let source = self.state.source();
            warn!(source, attempts, ?lasted, reason, "intake still pauses: the journal's disk has no space");
        }
    }

    fn tell_of_full_journal(&mut self, now: Instant) {
        if let Some(OutageReport { lasted, .. }) = self.full_journal.failed(now) {
            warn!(
                source = self.state.source(),
                ?lasted,
                "intake pauses, because the journal is full (journal_max); it has room again when all sinks have \
                 committed more"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crossbeam_channel::bounded;
    use tidemill_core::arrow::array::Int64Array;
    use tidemill_core::arrow::schema::{DataType, Field, Schema, SchemaRef};
    use tidemill_core::{ManualClock, Source, SourceOffsets};
    use tidemill_journal::{Journal, Positions, StreamSettings, inspect};

    use super::*;
    use crate::feed_settings::FeedSettings;

    /// Returns numbers two by two and, if it `has_offsets`, its offset after each batch.
    struct Numbers {
        next: i64,
        end: i64,
        has_offsets: bool,
    }

    impl Source for Numbers {
        fn schema(&self) -> SchemaRef {
            Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]))
        }
        fn poll(&mut self, _wait: Duration) -> Result<Polled, Cause> {
            if self.next >= self.end {
                return Ok(Polled::Ended);
            }
            let numbers = Arc::new(Int64Array::from(vec![self.next, self.next + 1])) as _;
            self.next += 2;
            let rows = RecordBatch::try_new(self.schema(), vec![numbers]);
            rows.map(Polled::Rows).map_err(|error| Cause::bug(error.to_string()).with_source(error))
        }
        fn offsets(&mut self) -> Vec<SourceOffset> {
            let at = self.next.to_le_bytes().to_vec();
            // The part of each hundred.
            let offset = SourceOffset { part: (self.next as u64 - 2) / 100, at: Some(at) };
            if self.has_offsets { vec![offset] } else { Vec::new() }
        }
        fn resume(&mut self, offsets: &SourceOffsets) -> Result<(), Cause> {
            let last =
                offsets.values().filter_map(|at| at.first_chunk()).map(|at| i64::from_le_bytes(*at)).max();
            self.next = last.unwrap_or(0);
            Ok(())
        }
        fn is_repeatable(&self) -> bool {
            true
        }
        fn is_finite(&self) -> bool {
            true
        }
    }

    /// Runs a source into its journal, for at most this many steps; returns the offsets there.
    fn run(folder: &Path, mut source: Numbers, steps: usize) -> SourceOffsets {
        let journal = Journal::open(folder).unwrap();
        let (stream, _reader) = journal.stream("n", source.schema(), &StreamSettings::default()).unwrap();
        if !stream.offsets().is_empty() {
            source.resume(stream.offsets()).unwrap();
        }
        let (sender, _queue) = bounded(1);
        let shared = (Arc::new(FeedState::default()), Arc::new(WriterReport::default()));
        let now = Instant::now();
        let clock = Arc::new(ManualClock::default());
        let replay_watermark = i64::MIN;
        let start = FeedStart {
            position: 0,
            watermark: i64::MIN,
            replay_end: 0,
            replay_watermark,
            skipped: Positions::default(),
            now,
            clock,
        };
        let schema = source.schema();
        let settings = FeedSettings::default();
        let input = SourceReader::new(Box::new(source), &settings, &[schema], i64::MIN, now);
        let mut writer = Writer::new(input, stream, SyncPolicy::Never, sender, shared, start);
        for _ in 0..steps {
            if writer.step(now).unwrap() == Step::Ended(true) {
                break;
            }
        }
        writer.journal.offsets().clone()
    }

    fn journaled(folder: &Path) -> Vec<i64> {
        let records = inspect::records(folder, "n", 0).unwrap();
        let rows = records.map(|record| {
            let column = Arc::clone(record.unwrap().rows.column(0));
            column.as_any().downcast_ref::<Int64Array>().unwrap().values().to_vec()
        });
        rows.flatten().collect()
    }

    fn offsets(expected: &[(u64, i64)]) -> SourceOffsets {
        expected.iter().map(|(part, at)| (*part, at.to_le_bytes().to_vec())).collect()
    }

    #[test]
    fn a_source_with_offsets_resumes_after_what_is_journaled() {
        let folder = tempfile::tempdir().unwrap();
        let numbers = || Numbers { next: 0, end: 120, has_offsets: true };
        assert_eq!(run(folder.path(), numbers(), 7), offsets(&[(0, 14)]));
        assert_eq!(run(folder.path(), numbers(), 1), offsets(&[(0, 16)]));
        assert_eq!(run(folder.path(), numbers(), 1000), offsets(&[(0, 100), (1, 120)]));
        assert_eq!(journaled(folder.path()), (0..120).collect::<Vec<i64>>());
    }

    #[test]
    fn a_journal_without_offsets_is_resumed_by_its_rows_and_has_offsets_from_then_on() {
        let folder = tempfile::tempdir().unwrap();
        let numbers = |end, has_offsets| Numbers { next: 0, end, has_offsets };
        assert_eq!(run(folder.path(), numbers(110, false), 1000), SourceOffsets::new());
        // Nothing new, so nothing is recorded either.
        assert_eq!(run(folder.path(), numbers(110, true), 1000), SourceOffsets::new());
        // The first new record has the offsets of everything that was left out.
        assert_eq!(run(folder.path(), numbers(112, true), 1000), offsets(&[(0, 100), (1, 112)]));
        assert_eq!(run(folder.path(), numbers(120, true), 1000), offsets(&[(0, 100), (1, 120)]));
        assert_eq!(journaled(folder.path()), (0..120).collect::<Vec<i64>>());
    }
}
