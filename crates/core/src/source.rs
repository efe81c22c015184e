//! Sources: where rows come from, batch by batch.

use std::collections::BTreeMap;
use std::time::Duration;

use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::SchemaRef;

use crate::bad_record::BadRecords;
use crate::connections::{Heard, Stretch};
use crate::error::Cause;
use crate::notices::Notices;
use crate::source_threads::SourceThreads;

/// What a source returned when it was polled.
#[derive(Clone, Debug)]
pub enum Polled {
    /// Rows, in the order in which they came.
    Rows(RecordBatch),
    /// All rows of one numbered request, and nothing else. They count once, no matter how often they are sent.
    Request {
        /// The rows.
        rows: RecordBatch,
        /// Whose request they are.
        request: Request,
    },
    /// Nothing came within the given time.
    Nothing,
    /// Nothing came, and nothing is to be expected for now: until its next rows, the source counts as idle, and does not hold
    /// event time back.
    Idle,
    /// Nothing more will come: the source has ended. Its event time is complete, and open windows close.
    Ended,
    /// Nothing more will come from here, but the source has not ended: its event time stays where it is, and open windows
    /// stay open. A later run of a durable query may continue.
    Left,
}

/// A request of a client that numbers its requests in ascending order. A durable query leaves the rows of a request out if it
/// has taken in that number or a later one of the same client. One that is not durable takes all rows in.
///
/// ```
/// let request = tidemill_core::source::Request { client: "agent-7".into(), sequence: 12 };
/// assert!(request.sequence > 11);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The client's name.
    pub client: String,
    /// The number of its request.
    pub sequence: u64,
}

/// What the name of a client begins with whose one request was named by a key.
const OF_KEY: &str = "Idempotency-Key ";

impl Request {
    /// A request that has a key and no number: the only one of a client with this key for a name, so that it is recognised when it
    /// comes again, like any other.
    ///
    /// ```
    /// use tidemill_core::source::Request;
    /// let request = Request::of_key("5bd07e1f");
    /// assert!(Request::is_of_key(&request.client) && request == Request::of_key("5bd07e1f"));
    /// assert!(!Request::is_of_key("agent-7"));
    /// ```
    pub fn of_key(key: &str) -> Request {
        Request { client: format!("{OF_KEY}{key}"), sequence: 1 }
    }

    /// Whether a client of this name is made of the key of a request.
    pub fn is_of_key(client: &str) -> bool {
        client.starts_with(OF_KEY)
    }
}

/// How far one part of a source was read, for example a file. Only the source knows what the bytes mean.
///
/// ```
/// use std::collections::BTreeMap;
/// use tidemill_core::source::{SourceOffset, note_offsets};
/// let mut offsets = BTreeMap::from([(1, b"byte 70".to_vec())]);
/// note_offsets(&mut offsets, [SourceOffset { part: 1, at: None }, SourceOffset { part: 2, at: Some(b"byte 9".to_vec()) }]);
/// assert_eq!(offsets, BTreeMap::from([(2, b"byte 9".to_vec())]));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceOffset {
    /// The number that the source has given to the part.
    pub part: u64,
    /// How far it was read; `None` if the source no longer needs to know anything about it.
    pub at: Option<Vec<u8>>,
}

/// The last offset of each part of a source.
pub type SourceOffsets = BTreeMap<u64, Vec<u8>>;

/// Takes over the offsets that have changed.
pub fn note_offsets(offsets: &mut SourceOffsets, changed: impl IntoIterator<Item = SourceOffset>) {
    for SourceOffset { part, at } in changed {
        match at {
            Some(at) => offsets.insert(part, at),
            None => offsets.remove(&part),
        };
    }
}

/// Input that could not be read and was left out since the source was last asked.
///
/// ```
/// use tidemill_core::source::Faults;
/// let mut faults = Faults::default();
/// faults.add("clicks.csv, line 7: 'x' is not a BIGINT");
/// assert_eq!((faults.count, faults.samples.len()), (1, 1));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// How many records.
    pub count: u64,
    /// The first few, each with place and reason.
    pub samples: Vec<String>,
    /// Facts about the input that caused nothing to be left out. Each is reported once.
    pub notices: Notices,
    /// The records themselves, if they are to be kept ([`Source::keep_bad_records`]).
    pub records: Option<BadRecords>,
}

impl Faults {
    /// How many samples are kept.
    pub const SAMPLES_MAX: usize = 8;

    /// Counts a record that could not be read, and keeps the text if there is room.
    pub fn add(&mut self, text: impl Into<String>) {
        self.count += 1;
        if self.samples.len() < Faults::SAMPLES_MAX {
            self.samples.push(text.into());
        }
    }

    /// Counts a record of text at this place, and keeps it if records are kept. The reason is created only if it is
    /// needed.
    ///
    /// ```
    /// use tidemill_core::source::Faults;
    /// let mut faults = Faults::default();
    /// faults.keep_records();
    /// faults.add_record(|| "clicks.csv, line 7".into(), || "'x' is not a BIGINT".into(), b"x,1");
    /// assert_eq!(faults.samples, ["clicks.csv, line 7: 'x' is not a BIGINT"]);
    /// assert_eq!(faults.records.unwrap().kept()[0].place, "clicks.csv, line 7");
    /// ```
    pub fn add_record(
        &mut self,
        place: impl FnOnce() -> String,
        reason: impl FnOnce() -> String,
        text: &[u8],
    ) {
        self.count += 1;
        let has_room = self.samples.len() < Faults::SAMPLES_MAX;
        if !has_room && self.records.is_none() {
            return;
        }
        let (place, reason) = (place(), reason());
        if has_room {
            self.samples.push(format!("{place}: {reason}"));
        }
        if let Some(records) = &mut self.records {
            records.add(place, reason, text);
        }
    }

    /// Counts a row at this place, and keeps it if records are kept. `row` returns it as a JSON object.
    pub fn add_row(&mut self, place: String, reason: String, row: impl FnOnce() -> String) {
        self.add(format!("{place}: {reason}"));
        if let Some(records) = &mut self.records {
            records.add_row(place, reason, row());
        }
    }

    /// From now on keeps the records of which it is told.
    pub fn keep_records(&mut self) {
        self.records.get_or_insert_default();
    }

    /// The faults so far. It keeps records as before.
    #[must_use]
    pub fn take(&mut self) -> Faults {
        let records = self.records.is_some().then(BadRecords::default);
        std::mem::replace(self, Faults { records, ..Faults::default() })
    }

    /// Changes what the texts say about places: those of the samples, which begin with one, and those of the records.
    pub fn change_places(&mut self, mut change: impl FnMut(&mut String)) {
        self.samples.iter_mut().for_each(&mut change);
        if let Some(records) = &mut self.records {
            records.change(|record| change(&mut record.place));
        }
    }

    /// Adds a notice.
    ///
    /// ```
    /// use tidemill_core::source::Faults;
    /// let mut faults = Faults::default();
    /// faults.notice("clicks/: there is no such folder yet; waiting for it");
    /// assert_eq!((faults.count, faults.notices.count(), faults.is_empty()), (0, 1, false));
    /// ```
    pub fn notice(&mut self, text: impl Into<String>) {
        self.notices.add(text);
    }

    /// Whether there is nothing to report.
    pub fn is_empty(&self) -> bool {
        self.count == 0 && self.notices.is_empty()
    }

    /// Adds the faults of another.
    pub fn merge(&mut self, other: Faults) {
        self.count += other.count;
        self.notices.merge(other.notices);
        let room = Faults::SAMPLES_MAX - self.samples.len().min(Faults::SAMPLES_MAX);
        self.samples.extend(other.samples.into_iter().take(room));
        if let Some(records) = other.records {
            self.records.get_or_insert_default().merge(records);
        }
    }
}

/// The rows of a batch that may not come in.
///
/// ```
/// use tidemill_core::source::Refused;
/// let mut refused = Refused::default();
/// refused.add(1, || "it is too far ahead".into());
/// assert_eq!(refused.admitted(3).iter().flatten().collect::<Vec<_>>(), [true, false, true]);
/// assert_eq!(refused.reason(0), "it is too far ahead");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// Their numbers within the batch, ascending.
    pub rows: Vec<usize>,
    /// The reasons for the first few.
    reasons: Vec<String>,
}

impl Refused {
    /// Refuses a row after the last refused one. The reason is created only if it is kept.
    pub fn add(&mut self, row: usize, reason: impl FnOnce() -> String) {
        self.rows.push(row);
        if self.reasons.len() < Faults::SAMPLES_MAX {
            self.reasons.push(reason());
        }
    }

    /// Why a row was refused, by its index among the refused rows. Beyond the first few, this is the reason of the last
    /// one kept.
    pub fn reason(&self, place: usize) -> &str {
        self.reasons.get(place).or(self.reasons.last()).map_or("", String::as_str)
    }

    /// Which of this many rows may come in.
    pub fn admitted(&self, rows: usize) -> BooleanArray {
        let mut admitted = vec![true; rows];
        self.rows.iter().for_each(|row| admitted[*row] = false);
        admitted.into()
    }
}

/// Decides which rows may come in, for reasons that the rows' format does not know. It is asked once for each row,
/// before the row has a position. A row that was admitted stays admitted, even when it is replayed.
pub trait Admission: Send {
    /// The rows that may not come in.
    ///
    /// # Errors
    /// If that cannot be determined. The query then stops.
    fn refused(&mut self, rows: &RecordBatch) -> Result<Refused, Cause>;
}

/// How far a finite source is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes (or rows, if it has no bytes) read so far.
    pub done: u64,
    /// The total; `None` if it is unknown or there is no end.
    pub total: Option<u64>,
}

/// Where rows come from: a file, a socket, a generator. A source is read on a thread of its own, so it may block, but
/// no longer than it is told, because the query must be able to stop.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tidemill_core::arrow::array::{Int64Array, RecordBatch};
/// use tidemill_core::arrow::schema::{DataType, Field, Schema, SchemaRef};
/// use tidemill_core::error::Cause;
/// use tidemill_core::source::{Polled, Source};
///
/// /// Counts down to 0.
/// struct Countdown(i64);
///
/// impl Source for Countdown {
///     fn schema(&self) -> SchemaRef {
///         Arc::new(Schema::new(vec![Field::new("value", DataType::Int64, false)]))
///     }
///     fn poll(&mut self, _wait: Duration) -> Result<Polled, Cause> {
///         if self.0 == 0 { return Ok(Polled::Ended) }
///         self.0 -= 1;
///         let value = Arc::new(Int64Array::from(vec![self.0])) as _;
///         RecordBatch::try_new(self.schema(), vec![value]).map(Polled::Rows).map_err(|error| Cause::bug(error.to_string()))
///     }
///     fn is_finite(&self) -> bool { true }
/// }
/// assert!(matches!(Countdown(1).poll(Duration::ZERO), Ok(Polled::Rows(_))));
/// assert!(matches!(Countdown(0).poll(Duration::ZERO), Ok(Polled::Ended)));
/// ```
pub trait Source: Send {
    /// The columns of its rows.
    fn schema(&self) -> SchemaRef;

    /// The next rows, from 1 to about 8192. Waits for them no longer than `wait`.
    ///
    /// # Errors
    /// If it cannot continue. The query then stops. A record that cannot be read is a fault and not an error.
    fn poll(&mut self, wait: Duration) -> Result<Polled, Cause>;

    /// How far the source has been read, up to the rows that were polled last: the offsets that have changed since this
    /// was last asked. They are kept in one record with the rows, so that a durable query never has one without the
    /// other. Asked after each batch of rows, if the source is durable.
    fn offsets(&mut self) -> Vec<SourceOffset> {
        Vec::new()
    }

    /// Continues behind the rows that earlier runs took in. These are the last offsets that [`Source::offsets`] returned
    /// with them. Called once, before the first poll, if there are any.
    ///
    /// # Errors
    /// If it cannot continue there, for example because a file has different content now.
    fn resume(&mut self, _offsets: &SourceOffsets) -> Result<(), Cause> {
        Ok(())
    }

    /// The first rows that it returned, this many, are now as durable as promised, or were dropped because they had
    /// been sent before: the source may tell whoever sent them. Called for durable sources only, with ascending
    /// numbers.
    fn acknowledge(&mut self, _rows: u64) {}

    /// The request that was polled last is not accepted: it has a smaller number than `last`, the last
    /// accepted one of its client. [`acknowledge`](Source::acknowledge) counts them too, but whoever sent them must not
    /// be told that they are safe. (A request with the number `last` itself is considered a repetition of that request,
    /// and acknowledged.)
    fn refuse(&mut self, _last: u64) {}

    /// Offers the source the task of asking which rows may come in, so that it can tell senders which of their rows
    /// were refused. A source that does not take it over returns it, and the reader of the source then asks. Called
    /// before the first poll.
    fn admit_by(&mut self, admission: Box<dyn Admission>) -> Option<Box<dyn Admission>> {
        Some(admission)
    }

    /// Records events of its connections from now on, for [`Source::connections`]. A connection over which nothing has
    /// come for `silent_after` is reported as silent; with `None` none is. This is called before the first poll, if
    /// event time matters.
    fn watch_connections(&mut self, _silent_after: Option<Duration>) {}

    /// The events of its connections since the last call, in order. They say over which connection each row of the last
    /// poll came. Called after each poll. Empty if the source has no connections or only one, because its rows are then
    /// in one order.
    ///
    /// Rows of one connection can overtake rows of another. So the event time is not the largest of all rows, but that
    /// of the connection that is furthest behind and has not fallen silent.
    fn connections(&mut self) -> Vec<Heard> {
        Vec::new()
    }

    /// What an earlier run decided about the connections of the rows that were polled last, if these rows come from its
    /// journal. It is not decided again. Called after each poll, before [`Source::connections`].
    fn recorded_stretches(&mut self) -> Vec<Stretch> {
        Vec::new()
    }

    /// Whether it returns the same rows in the same order each time it is opened. A durable query then continues behind
    /// those that it had, unless the source knows its offsets itself. The rows of any other source are all new.
    fn is_repeatable(&self) -> bool {
        false
    }

    /// The threads that it has, or will have, beside the one that polls it. They come into the pool of the query that the
    /// source is read for. Asked once, before the first poll. `None`: it has none, or starts them through a library.
    fn threads(&self) -> Option<SourceThreads> {
        None
    }

    /// Faults since this was last asked.
    fn faults(&mut self) -> Faults {
        Faults::default()
    }

    /// From now on its faults have the records that could not be read ([`Faults::records`]). A source that has no
    /// records of text need not. Called before the first poll, after columns were selected.
    fn keep_bad_records(&mut self) {}

    /// Rows of those that were polled last may not come in. Called for each batch of rows with such rows, before
    /// anything is acknowledged behind it, unless the source has asked by itself ([`Source::admit_by`]).
    ///
    /// # Errors
    /// If the source cannot continue.
    fn refused_rows(&mut self, _rows: &RecordBatch, _refused: &Refused) -> Result<(), Cause> {
        Ok(())
    }

    /// How far it has been read.
    fn progress(&self) -> Progress {
        Progress::default()
    }

    /// Whether it ends by itself.
    fn is_finite(&self) -> bool;
}
