//! A source and a sink that stand in front of another one and change nothing: everything comes from the other one.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parking_lot::Mutex;
use tidemill_core::connections::{Heard, Stretch};
use tidemill_core::cut::Cut;
use tidemill_core::sink::Arrivals;
use tidemill_core::{
    Admission, Cause, CycleOutput, DelegatingSink, DelegatingSource, FaultLog, Faults, Guarantee,
    ManualClock, Polled, Progress, Refused, Sink, SinkOutage, Source, SourceOffset, SourceOffsets,
    SourceThreads,
};

/// The calls of methods that return nothing, or nothing of interest.
type Calls = Arc<Mutex<Vec<String>>>;

/// Differs from the default of [`Source`] in every method.
struct Other(Calls);

impl Other {
    fn note(&self, call: impl Into<String>) {
        self.0.lock().push(call.into());
    }
}

// A method that `Source` gets must be called below, too.
#[deny(clippy::missing_trait_methods)]
impl Source for Other {
    fn schema(&self) -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("value", DataType::Int64, false)]))
    }
    fn poll(&mut self, wait: Duration) -> Result<Polled, Cause> {
        self.note(format!("poll {wait:?}"));
        Ok(Polled::Left)
    }
    fn offsets(&mut self) -> Vec<SourceOffset> {
        vec![SourceOffset { part: 3, at: None }]
    }
    fn resume(&mut self, offsets: &SourceOffsets) -> Result<(), Cause> {
        Err(Cause::user(format!("resume {offsets:?}")))
    }
    fn acknowledge(&mut self, rows: u64) {
        self.note(format!("acknowledge {rows}"));
    }
    fn refuse(&mut self, last: u64) {
        self.note(format!("refuse {last}"));
    }
    fn admit_by(&mut self, _admission: Box<dyn Admission>) -> Option<Box<dyn Admission>> {
        None
    }
    fn watch_connections(&mut self, silent_after: Option<Duration>) {
        self.note(format!("watch {silent_after:?}"));
    }
    fn connections(&mut self) -> Vec<Heard> {
        self.note("connections");
        Vec::new()
    }
    fn recorded_stretches(&mut self) -> Vec<Stretch> {
        self.note("recorded");
        Vec::new()
    }
    fn is_repeatable(&self) -> bool {
        true
    }
    fn threads(&self) -> Option<SourceThreads> {
        Some(SourceThreads::default())
    }
    fn faults(&mut self) -> Faults {
        Faults { count: 7, ..Faults::default() }
    }
    fn keep_bad_records(&mut self) {
        self.note("keep bad records");
    }
    fn refused_rows(&mut self, rows: &RecordBatch, _refused: &Refused) -> Result<(), Cause> {
        Err(Cause::user(format!("refused of {}", rows.num_rows())))
    }
    fn progress(&self) -> Progress {
        Progress { done: 5, total: Some(9) }
    }
    fn is_finite(&self) -> bool {
        true
    }
}

#[deny(clippy::missing_trait_methods)]
impl Sink for Other {
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        self.note(format!("prepare {}", output.cut.cycle));
        Ok(())
    }
    fn commit(&mut self, cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        self.note(format!("commit {cycles:?}"));
        Ok(())
    }
    fn may_block(&self) -> bool {
        false
    }
    fn guarantee(&self) -> Guarantee {
        Guarantee::ExactlyOnce
    }
    fn last_committed(&mut self) -> Result<Option<u64>, Cause> {
        Ok(Some(41))
    }
    fn away(&self) -> Option<Cause> {
        Some(Cause::operation("away"))
    }
    fn arrive(&mut self) -> Result<(), Cause> {
        self.note("arrive");
        Ok(())
    }
    fn unrecorded(&self) -> Option<u64> {
        Some(40)
    }
    fn record(&mut self) -> Result<(), Cause> {
        Err(Cause::operation("record"))
    }
    fn refused(&self) -> FaultLog {
        let log = FaultLog::default();
        log.add(|| "a row".into());
        log
    }
    fn outage(&self) -> SinkOutage {
        let outage = SinkOutage::default();
        outage.failed("away");
        outage
    }
    fn stopper(&self) -> Option<Box<dyn Fn() + Send + Sync>> {
        let calls = Arc::clone(&self.0);
        Some(Box::new(move || calls.lock().push("stop".into())))
    }
    fn finish(&mut self) -> Result<(), Cause> {
        Err(Cause::operation("finish"))
    }
}

struct SameSource(Other);

impl DelegatingSource for SameSource {
    fn inner(&self) -> &dyn Source {
        &self.0
    }
    fn inner_mut(&mut self) -> &mut dyn Source {
        &mut self.0
    }
}

struct SameSink(Other);

impl DelegatingSink for SameSink {
    fn inner(&self) -> &dyn Sink {
        &self.0
    }
    fn inner_mut(&mut self) -> &mut dyn Sink {
        &mut self.0
    }
}

struct AdmitsAll;

impl Admission for AdmitsAll {
    fn refused(&mut self, _rows: &RecordBatch) -> Result<Refused, Cause> {
        Ok(Refused::default())
    }
}

#[test]
fn a_source_that_changes_nothing_is_the_other_one() {
    let calls = Calls::default();
    let mut source: Box<dyn Source> = Box::new(SameSource(Other(Arc::clone(&calls))));
    assert_eq!(source.schema().field(0).name(), "value");
    assert!(matches!(source.poll(Duration::from_millis(3)), Ok(Polled::Left)));
    assert_eq!(source.offsets(), [SourceOffset { part: 3, at: None }]);
    let offsets = BTreeMap::from([(2, vec![6])]);
    assert_eq!(&*source.resume(&offsets).unwrap_err().message, "resume {2: [6]}");
    source.acknowledge(8);
    source.refuse(4);
    assert!(source.admit_by(Box::new(AdmitsAll)).is_none());
    source.watch_connections(None);
    source.connections();
    source.recorded_stretches();
    assert!(source.is_repeatable());
    assert!(source.threads().is_some());
    assert_eq!(source.faults().count, 7);
    assert_eq!(source.progress(), Progress { done: 5, total: Some(9) });
    assert!(source.is_finite());
    source.keep_bad_records();
    let rows = RecordBatch::new_empty(source.schema());
    let refused = source.refused_rows(&rows, &Refused::default());
    assert_eq!(&*refused.unwrap_err().message, "refused of 0");
    let calls = calls.lock();
    let expected = [
        "poll 3ms",
        "acknowledge 8",
        "refuse 4",
        "watch None",
        "connections",
        "recorded",
        "keep bad records",
    ];
    assert_eq!(*calls, expected);
}

#[test]
fn a_sink_that_changes_nothing_is_the_other_one() {
    let calls = Calls::default();
    let mut sink: Box<dyn Sink> = Box::new(SameSink(Other(Arc::clone(&calls))));
    let cut = Cut {
        cycle: 12,
        positions: Vec::new(),
        watermarks: Vec::new(),
        idle: Vec::new(),
        closed_at_ns: 0,
        snapshot: false,
        last: false,
        splits: Vec::new(),
        ended_at: Vec::new(),
        stands_still_when_idle: false,
    };
    let output = CycleOutput {
        cut: Arc::new(cut),
        streams: Vec::new(),
        arrivals: Arc::new(Arrivals::default()),
        clock: Arc::new(ManualClock::default()),
    };
    sink.prepare(output).unwrap();
    sink.commit(11..=12).unwrap();
    assert!(!sink.may_block());
    assert_eq!(sink.guarantee(), Guarantee::ExactlyOnce);
    assert_eq!(&*sink.away().expect("it is away").message, "away");
    sink.arrive().unwrap();
    assert_eq!(sink.last_committed().unwrap(), Some(41));
    assert_eq!(sink.unrecorded(), Some(40));
    assert_eq!(&*sink.record().unwrap_err().message, "record");
    assert_eq!(sink.refused().read().count, 1);
    assert_eq!(sink.outage().read().expect("an outage").1, "away");
    sink.stopper().expect("it can be stopped")();
    assert_eq!(&*sink.finish().unwrap_err().message, "finish");
    assert_eq!(*calls.lock(), ["prepare 12", "commit 11..=12", "arrive", "stop"]);
}
