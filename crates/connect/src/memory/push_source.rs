//! A source into which the program itself puts rows.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parking_lot::{Condvar, Mutex, MutexGuard};
use tidemill_core::error::Cause;
use tidemill_core::memory::bytes_of_rows;
use tidemill_core::source::{Polled, Source};

/// Rows that may wait for a reader.
const WAITING_BYTES_MAX: usize = 16 << 20;
/// How often somebody who waits looks whether to keep waiting.
const LOOK: Duration = Duration::from_millis(20);

/// Where a program puts rows for the queries that read them. Each open [`PushSource`] of it gets all rows that come from
/// then on. Clones put rows into the same sources.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tidemill_connect::memory::PushTarget;
/// use tidemill_core::arrow::array::{Int64Array, RecordBatch};
/// use tidemill_core::source::{Polled, Source};
///
/// let column = Arc::new(Int64Array::from(vec![1, 2])) as _;
/// let rows = RecordBatch::try_from_iter([("value", column)])?;
/// let target = PushTarget::new("numbers", rows.schema(), false);
/// assert!(target.push(&rows, &|| true).is_err(), "nobody would get them");
/// let mut source = target.open();
/// let pushed = target.push(&rows, &|| true)?;
/// assert!(matches!(source.poll(Duration::ZERO)?, Polled::Rows(polled) if polled == rows));
/// assert!(matches!(source.poll(Duration::ZERO)?, Polled::Nothing), "and so the rows are passed on");
/// pushed.settle(&|| true)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct PushTarget {
    shared: Arc<Readers>,
}

struct Readers {
    name: String,
    schema: SchemaRef,
    /// Whether rows count as taken in when they are acknowledged, and not before.
    is_durable: bool,
    /// Whether its rows are changes of a table, which come in transactions.
    is_transactional: bool,
    /// How long a reader may take nothing while rows wait for it.
    patience: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    opened: u64,
    readers: BTreeMap<u64, Reader>,
}

/// What one source has.
#[derive(Default)]
struct Reader {
    waiting: VecDeque<RecordBatch>,
    waiting_bytes: usize,
    /// Rows, counted from the beginning.
    pushed: u64,
    polled: u64,
    /// Those of the polls before the last one: whoever polls again has passed on what it got.
    passed_on: u64,
    acknowledged: u64,
    is_cut_off: bool,
}

impl Readers {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Waits until something has changed, or some time has passed.
    fn wait(&self, state: &mut MutexGuard<'_, State>, time: Duration) {
        self.changed.wait_for(state, time);
    }
}

/// Rows that were pushed.
pub struct Pushed {
    shared: Arc<Readers>,
    /// How many rows each source had been given with them.
    up_to: Vec<(u64, u64)>,
}

impl PushTarget {
    /// How long a reader may take nothing while rows wait for it, by default.
    pub const PATIENCE: Duration = Duration::from_secs(30);

    /// A target for rows of these columns. `name` is what the source is called in messages; the rows of a durable one are
    /// settled when they are in the journals of the queries that read them.
    pub fn new(name: &str, schema: SchemaRef, is_durable: bool) -> PushTarget {
        PushTarget::with_patience(name, schema, is_durable, PushTarget::PATIENCE)
    }

    /// As [`new`](PushTarget::new). A reader that takes nothing for this long is cut off: its query stops, with that reason.
    pub fn with_patience(name: &str, schema: SchemaRef, is_durable: bool, patience: Duration) -> PushTarget {
        PushTarget::of(name, schema, (is_durable, false), patience)
    }

    /// As [`new`](PushTarget::new), for the changes of a table: they come in transactions, and nobody else may give it rows meanwhile.
    pub fn transactional(name: &str, schema: SchemaRef, is_durable: bool) -> PushTarget {
        PushTarget::of(name, schema, (is_durable, true), PushTarget::PATIENCE)
    }

    fn of(
        name: &str,
        schema: SchemaRef,
        (is_durable, is_transactional): (bool, bool),
        patience: Duration,
    ) -> PushTarget {
        let (name, state, changed) = (name.to_owned(), Mutex::default(), Condvar::new());
        let shared = Readers { name, schema, is_durable, is_transactional, patience, state, changed };
        PushTarget { shared: Arc::new(shared) }
    }

    /// What the source is called.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Whether its rows are changes of a table.
    pub fn is_transactional(&self) -> bool {
        self.shared.is_transactional
    }

    /// Whether both are the same target.
    pub fn is(&self, other: &PushTarget) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// The columns of its rows.
    pub fn schema(&self) -> &SchemaRef {
        &self.shared.schema
    }

    /// How many sources get its rows.
    pub fn readers(&self) -> usize {
        self.shared.lock().readers.len()
    }

    /// A source that gets the rows that are pushed from now on.
    pub fn open(&self) -> PushSource {
        let mut state = self.shared.lock();
        state.opened += 1;
        let number = state.opened;
        state.readers.insert(number, Reader::default());
        PushSource { shared: Arc::clone(&self.shared), number }
    }

    /// Gives rows to all sources, when there is room. `goes_on` is asked again and again while it waits.
    ///
    /// # Errors
    /// If nobody reads them, they have other columns, or `goes_on` says that nobody waits any more. Then no source has them.
    pub fn push(&self, rows: &RecordBatch, goes_on: &dyn Fn() -> bool) -> Result<Pushed, Cause> {
        if rows.schema().fields() != self.shared.schema.fields() {
            return Err(Cause::bug(format!("rows for '{}' do not have its columns", self.shared.name)));
        }
        let mut state = self.shared.lock();
        let start = Instant::now();
        loop {
            if state.readers.is_empty() {
                return Err(self.shared.nobody());
            }
            let is_full = |reader: &Reader| reader.waiting_bytes >= WAITING_BYTES_MAX && !reader.is_cut_off;
            if !state.readers.values().any(is_full) {
                break;
            }
            if start.elapsed() >= self.shared.patience {
                let full = state.readers.values_mut().filter(|reader| is_full(reader));
                full.for_each(|reader| reader.is_cut_off = true);
                self.shared.changed.notify_all();
                continue;
            }
            if !goes_on() {
                return Err(given_up());
            }
            self.shared.wait(&mut state, LOOK);
        }
        let bytes = bytes_of_rows(rows);
        let mut up_to = Vec::new();
        for (number, reader) in state.readers.iter_mut().filter(|(_, reader)| !reader.is_cut_off) {
            reader.waiting.push_back(rows.clone());
            reader.waiting_bytes += bytes;
            reader.pushed += rows.num_rows() as u64;
            up_to.push((*number, reader.pushed));
        }
        self.shared.changed.notify_all();
        if up_to.is_empty() {
            return Err(self.shared.nobody());
        }
        Ok(Pushed { shared: Arc::clone(&self.shared), up_to })
    }
}

impl Readers {
    fn nobody(&self) -> Cause {
        Cause::user(format!(
            "no query reads '{}', so its rows would be lost; create a materialized view or a sink over it first",
            self.name
        ))
    }
}

fn given_up() -> Cause {
    Cause::operation("the sender stopped waiting before the rows were taken in")
}

impl Pushed {
    /// Waits until all sources that were given the rows have passed them on; if the source is durable, until the rows are in
    /// their journals.
    ///
    /// # Errors
    /// If all queries that were to get them have ended before, or `goes_on` says that nobody waits any more.
    pub fn settle(&self, goes_on: &dyn Fn() -> bool) -> Result<(), Cause> {
        let mut state = self.shared.lock();
        loop {
            let is_there =
                |(number, up_to): &(u64, u64)| state.readers.get(number).map(|reader| (reader, *up_to));
            let mut readers = self.up_to.iter().filter_map(is_there).peekable();
            if readers.peek().is_none() {
                return Err(Cause::operation(format!(
                    "the query that reads '{}' ended before it took in the rows",
                    self.shared.name
                )));
            }
            let is_settled = |(reader, up_to): (&Reader, u64)| {
                up_to <= if self.shared.is_durable { reader.acknowledged } else { reader.passed_on }
            };
            if readers.all(is_settled) {
                return Ok(());
            }
            if !goes_on() {
                return Err(given_up());
            }
            self.shared.wait(&mut state, LOOK);
        }
    }
}

/// Gives the rows that are pushed into its [`PushTarget`].
pub struct PushSource {
    shared: Arc<Readers>,
    number: u64,
}

impl Source for PushSource {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.shared.schema)
    }

    fn poll(&mut self, wait: Duration) -> Result<Polled, Cause> {
        let until = Instant::now() + wait;
        let mut state = self.shared.lock();
        if let Some(reader) = state.readers.get_mut(&self.number)
            && reader.passed_on < reader.polled
        {
            reader.passed_on = reader.polled;
            self.shared.changed.notify_all();
        }
        loop {
            let Some(reader) = state.readers.get_mut(&self.number) else { return Ok(Polled::Left) };
            if reader.is_cut_off {
                return Err(Cause::resource(format!(
                    "the query did not take rows of '{}' for {} s, and others were waiting for it; it was cut off",
                    self.shared.name,
                    self.shared.patience.as_secs()
                )));
            }
            if let Some(rows) = reader.waiting.pop_front() {
                reader.waiting_bytes = reader.waiting.iter().map(bytes_of_rows).sum();
                reader.polled += rows.num_rows() as u64;
                self.shared.changed.notify_all();
                return Ok(Polled::Rows(rows));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Polled::Nothing);
            }
            self.shared.wait(&mut state, left);
        }
    }

    fn acknowledge(&mut self, rows: u64) {
        if let Some(reader) = self.shared.lock().readers.get_mut(&self.number) {
            reader.acknowledged = rows;
        }
        self.shared.changed.notify_all();
    }

    fn is_finite(&self) -> bool {
        false
    }
}

impl Drop for PushSource {
    fn drop(&mut self) {
        self.shared.lock().readers.remove(&self.number);
        self.shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use arrow_array::{ArrayRef, Int64Array};

    use super::*;

    fn rows(values: impl IntoIterator<Item = i64>) -> RecordBatch {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(values));
        RecordBatch::try_from_iter([("value", column)]).unwrap()
    }

    fn polled(source: &mut PushSource) -> RecordBatch {
        match source.poll(Duration::from_secs(30)).unwrap() {
            Polled::Rows(rows) => rows,
            other => panic!("no rows: {other:?}"),
        }
    }

    #[test]
    fn every_source_gets_what_comes_after_it_was_opened() {
        let target = PushTarget::new("numbers", rows([]).schema(), false);
        let mut early = target.open();
        target.push(&rows([1]), &|| true).unwrap();
        let mut late = target.open();
        let second = target.push(&rows([2]), &|| true).unwrap();
        assert_eq!((polled(&mut early), polled(&mut early)), (rows([1]), rows([2])));
        let is_over =
            |source: &mut PushSource| matches!(source.poll(Duration::ZERO).unwrap(), Polled::Nothing);
        assert!(is_over(&mut early));
        assert!(second.settle(&|| false).is_err(), "one has not taken it");
        assert_eq!(polled(&mut late), rows([2]));
        assert!(second.settle(&|| false).is_err(), "one has not passed it on");
        assert!(is_over(&mut late));
        second.settle(&|| false).unwrap();
    }

    #[test]
    fn rows_of_a_durable_source_are_settled_when_they_are_acknowledged() {
        let target = PushTarget::new("numbers", rows([]).schema(), true);
        let mut source = target.open();
        let pushed = target.push(&rows([1, 2]), &|| true).unwrap();
        polled(&mut source);
        source.acknowledge(1);
        assert!(pushed.settle(&|| false).is_err());
        source.acknowledge(2);
        pushed.settle(&|| false).unwrap();
    }

    #[test]
    fn who_ends_before_it_has_taken_the_rows_is_told() {
        let target = PushTarget::new("numbers", rows([]).schema(), false);
        let source = target.open();
        let pushed = target.push(&rows([1]), &|| true).unwrap();
        let waiting = thread::spawn(move || pushed.settle(&|| true).map_err(|cause| cause.to_string()));
        drop(source);
        assert!(waiting.join().unwrap().unwrap_err().contains("ended before it took in"));
        assert!(target.push(&rows([1]), &|| true).is_err());
    }

    #[test]
    fn who_takes_nothing_is_cut_off_and_the_others_go_on() {
        let patience = Duration::from_millis(50);
        let target = PushTarget::with_patience("numbers", rows([]).schema(), false, patience);
        let (mut stuck, mut working) = (target.open(), target.open());
        let many = rows(0..500_000);
        let taking = thread::spawn(move || {
            let mut taken = 0;
            while taken < 20 * 500_000 {
                taken += polled(&mut working).num_rows();
            }
        });
        for _ in 0..20 {
            target.push(&many, &|| true).unwrap();
        }
        taking.join().unwrap();
        let why = stuck.poll(Duration::ZERO).map(drop).unwrap_err().to_string();
        assert!(why.contains("did not take rows"), "{why}");
    }
}
