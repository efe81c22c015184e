//! Sources whose rows a case gives, one delivery after the other.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tidemill_connect::formats::encode::TextFormat;
use tidemill_engine::arrow::array::RecordBatch;
use tidemill_engine::arrow::schema::SchemaRef;
use tidemill_engine::{Cause, Clock, Faults, Polled, Refused, Source};
use tidemill_sql::{OpenSource, Projected, ReplacedSource, StandInSources};

use super::CaseError;
use super::case_file::{Case, SectionKind};
use super::given_rows::{self, DeadLetter, GivenFaults};

/// A clock that a case moves.
#[derive(Debug, Default)]
pub(super) struct CaseClock(AtomicU64);

impl CaseClock {
    pub fn set_ns(&self, now_ns: u64) {
        self.0.store(now_ns, Ordering::SeqCst);
    }
}

impl Clock for CaseClock {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// What a source is given next.
pub(super) enum Delivery {
    Rows(RecordBatch),
    /// Records that cannot be read.
    Faults(Faults),
    Idle,
    Ended,
    /// It is stopped, and has not ended.
    Left,
}

/// The sources of a script, by name, and what a case gives them.
pub(super) struct SourceRegistry {
    case: Arc<Case>,
    sources: Mutex<BTreeMap<String, Arc<DeclaredSource>>>,
    planning: Arc<Planning>,
}

/// What is read while a pipeline is planned: tables, which are there before the streams.
#[derive(Default)]
struct Planning {
    has_ended: AtomicBool,
    wrong: Mutex<Option<CaseError>>,
    faults: Mutex<GivenFaults>,
}

/// A source of the script, and the way to it.
pub(super) struct DeclaredSource {
    pub source: ReplacedSource,
    /// Rows that may not come in.
    pub refused: Mutex<Vec<DeadLetter>>,
    deliveries: Sender<Delivery>,
    /// What the source says when it has dealt with a delivery.
    done: Mutex<Receiver<()>>,
    ends: Mutex<Option<(Receiver<Delivery>, Sender<()>)>>,
    is_open: OnceLock<()>,
    is_table_open: OnceLock<()>,
}

impl SourceRegistry {
    /// For the sources of a script with this case.
    pub fn new(case: Arc<Case>) -> SourceRegistry {
        SourceRegistry { case, sources: Mutex::default(), planning: Arc::default() }
    }

    /// The sources so far.
    pub fn all(&self) -> BTreeMap<String, Arc<DeclaredSource>> {
        self.sources.lock().clone()
    }

    /// From now on, sources are opened to be read as streams. Returns what was wrong with the rows of tables.
    pub fn end_planning(&self) -> Option<CaseError> {
        self.planning.has_ended.store(true, Ordering::SeqCst);
        self.planning.wrong.lock().take()
    }

    /// The records of tables that could not be read.
    pub fn faults_of_tables(&self) -> GivenFaults {
        std::mem::take(&mut *self.planning.faults.lock())
    }
}

/// All rows that a case gives to a source.
fn all_rows(case: &Case, planning: &Planning, declared: &DeclaredSource) -> Result<Vec<RecordBatch>, Cause> {
    let source = &declared.source;
    let mut batches = Vec::new();
    let is_first = declared.is_table_open.set(()).is_ok();
    for section in &case.sections {
        let is_text = match &section.kind {
            SectionKind::Rows(name) if name.eq_ignore_ascii_case(&source.name) => false,
            SectionKind::Text(name) if name.eq_ignore_ascii_case(&source.name) => true,
            _ => continue,
        };
        let given = given_rows::read(case, source, &section.body, is_text).map_err(|error| {
            let cause = Cause::user(error.to_string());
            *planning.wrong.lock() = Some(error);
            cause
        })?;
        if is_first && given.faults.count > 0 {
            planning.faults.lock().note(&source.name, &given.faults);
        }
        batches.extend(given.batches);
    }
    Ok(batches)
}

impl DeclaredSource {
    /// Whether the pipeline reads it.
    pub fn is_read(&self) -> bool {
        self.is_open.get().is_some()
    }

    /// Whether the pipeline has read it before it began.
    pub fn is_read_as_table(&self) -> bool {
        self.is_table_open.get().is_some()
    }

    /// Gives it something, and waits until that has come in. False: it takes nothing any more.
    pub fn deliver(&self, delivery: Delivery) -> bool {
        self.deliveries.send(delivery).is_ok() && self.done.lock().recv().is_ok()
    }
}

impl StandInSources for SourceRegistry {
    fn stand_in(&self, source: ReplacedSource) -> Arc<OpenSource> {
        let ((deliveries, taken), (says_done, done)) = (channel(), channel());
        let name = source.name.clone();
        let declared = Arc::new(DeclaredSource {
            source,
            refused: Mutex::default(),
            deliveries,
            done: Mutex::new(done),
            ends: Mutex::new(Some((taken, says_done))),
            is_open: OnceLock::new(),
            is_table_open: OnceLock::new(),
        });
        self.sources.lock().insert(name, Arc::clone(&declared));
        let (case, planning) = (Arc::clone(&self.case), Arc::clone(&self.planning));
        Arc::new(move |columns| {
            if !planning.has_ended.load(Ordering::SeqCst) {
                let rows = all_rows(&case, &planning, &declared)?;
                let table = TableRows { columns: Arc::clone(&declared.source.columns), rows: rows.into() };
                return Projected::open(table, columns);
            }
            let (taken, says_done) = declared.ends.lock().take().ok_or_else(|| {
                let name = &declared.source.name;
                Cause::user(format!(
                    "source '{name}' is read by more than one query of its own; a test gives its rows once"
                ))
            })?;
            let _ = declared.is_open.set(());
            let of = Arc::clone(&declared);
            let source = StandInSource { of, taken, says_done, owes: false, faults: Faults::default() };
            Projected::open(source, columns)
        })
    }
}

/// All rows of a table.
struct TableRows {
    columns: SchemaRef,
    rows: VecDeque<RecordBatch>,
}

impl Source for TableRows {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.columns)
    }

    fn poll(&mut self, _wait: Duration) -> Result<Polled, Cause> {
        Ok(self.rows.pop_front().map_or(Polled::Ended, Polled::Rows))
    }

    fn is_repeatable(&self) -> bool {
        true
    }

    fn is_finite(&self) -> bool {
        true
    }
}

/// Gives the deliveries of one source.
struct StandInSource {
    of: Arc<DeclaredSource>,
    taken: Receiver<Delivery>,
    says_done: Sender<()>,
    /// Whether a delivery is being dealt with.
    owes: bool,
    faults: Faults,
}

impl Source for StandInSource {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.of.source.columns)
    }

    fn poll(&mut self, wait: Duration) -> Result<Polled, Cause> {
        // Whoever polls has dealt with what came before.
        if std::mem::take(&mut self.owes) {
            let _ = self.says_done.send(());
        }
        let delivery = match self.taken.recv_timeout(wait) {
            Ok(delivery) => delivery,
            Err(RecvTimeoutError::Timeout) => return Ok(Polled::Nothing),
            Err(RecvTimeoutError::Disconnected) => return Ok(Polled::Left),
        };
        self.owes = true;
        Ok(match delivery {
            Delivery::Rows(rows) => Polled::Rows(rows),
            Delivery::Faults(faults) => {
                self.faults.merge(faults);
                Polled::Nothing
            }
            Delivery::Idle => Polled::Idle,
            Delivery::Ended => Polled::Ended,
            Delivery::Left => Polled::Left,
        })
    }

    fn faults(&mut self) -> Faults {
        self.faults.take()
    }

    fn refused_rows(&mut self, rows: &RecordBatch, refused: &Refused) -> Result<(), Cause> {
        let mut encoder = TextFormat::Ndjson.encoder(&rows.schema())?;
        for (place, row) in refused.rows.iter().enumerate() {
            let mut text = Vec::new();
            encoder.rows(&rows.slice(*row, 1), &mut text)?;
            let record = String::from_utf8_lossy(&text).trim_end().to_owned();
            self.of.refused.lock().push(DeadLetter { reason: refused.reason(place).to_owned(), record });
        }
        Ok(())
    }

    fn is_repeatable(&self) -> bool {
        self.of.source.is_repeatable
    }

    fn is_finite(&self) -> bool {
        self.of.source.is_finite
    }
}
