//! Aggregates of each row together with the rows before it.

use std::time::Duration;

use tidemill_operators::FailedResults;
use tidemill_operators::over::{Frame, FunctionSpec, Over, OverSpec, output_schema};

use crate::aggregate::Aggregation;
use crate::build::duplicate;
use crate::keyed::KeyedStream;
use crate::stream::Stream;

/// Which rows count for a row: some of the rows of its key up to it, in the order of a column of event times.
///
/// ```
/// use std::time::Duration;
/// use tidemill::Trailing;
/// let ten_rows = Trailing::rows("time", 10);
/// let a_minute = Trailing::within("time", Duration::from_secs(60));
/// let from_the_beginning = Trailing::all("time");
/// assert_ne!(ten_rows, a_minute);
/// # assert_ne!(ten_rows, from_the_beginning);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trailing {
    time: String,
    extent: Extent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    Rows(usize),
    Within(Duration),
    All,
}

impl Trailing {
    /// This many rows, with the row itself: 1 is the row alone.
    pub fn rows(time: &str, rows: usize) -> Trailing {
        Trailing { time: time.to_owned(), extent: Extent::Rows(rows) }
    }

    /// The rows that are at most this much older. Other rows with the same time count, too.
    pub fn within(time: &str, age: Duration) -> Trailing {
        Trailing { time: time.to_owned(), extent: Extent::Within(age) }
    }

    /// All rows from the first one of the key on.
    pub fn all(time: &str) -> Trailing {
        Trailing { time: time.to_owned(), extent: Extent::All }
    }

    fn frame(&self) -> Result<Frame, String> {
        Ok(match self.extent {
            Extent::Rows(0) => {
                return Err("0 rows do not contain the row itself; 1 is the row alone".to_owned());
            }
            Extent::Rows(rows) => Frame::Rows { preceding: Some(rows - 1) },
            Extent::Within(age) => {
                Frame::Range { preceding_ns: Some(i64::try_from(age.as_nanos()).unwrap_or(i64::MAX)) }
            }
            Extent::All => Frame::Rows { preceding: None },
        })
    }
}

/// A keyed stream whose rows are seen together with rows before them: [`KeyedStream::trailing`].
#[derive(Clone)]
pub struct TrailingStream {
    keyed: KeyedStream,
    trailing: Trailing,
}

impl KeyedStream {
    /// Sees each row together with rows of its key before it.
    #[must_use]
    pub fn trailing(&self, trailing: Trailing) -> TrailingStream {
        TrailingStream { keyed: self.clone(), trailing }
    }
}

impl TrailingStream {
    /// Adds to each row the aggregates of the rows that count for it. The rows come in the order of their times, when event
    /// time has passed them. `count`, `count_of`, `sum`, `average`, `minimum` and `maximum` can be computed so.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidemill::aggregate::{average, count};
    /// use tidemill::{Engine, Query, Timestamp, Trailing, rows_of};
    ///
    /// let mut query = Query::new("smoothed");
    /// let reports = query.rows::<(u32, Timestamp, f64)>("reports", ["car", "time", "speed"]);
    /// let reports = reports.event_time("time", Duration::from_secs(2));
    /// let smoothed = reports
    ///     .key_by("car")
    ///     .trailing(Trailing::rows("time", 2))
    ///     .aggregate([average("speed").named("smoothed"), count().named("reports")])
    ///     .collect("smoothed", 100);
    /// let run = Engine::new().start(query)?;
    /// run.input(&reports)?.push([(1, Timestamp(0), 80.0), (1, Timestamp(9), 60.0), (1, Timestamp(5), 70.0)])?;
    /// run.finish()?;
    /// let smoothed = rows_of::<(Option<f64>, i64)>(&smoothed.read()?, ["smoothed", "reports"])?;
    /// assert_eq!(smoothed, [(Some(80.0), 1), (Some(75.0), 2), (Some(65.0), 2)]);
    /// # Ok::<(), tidemill::Error>(())
    /// ```
    #[must_use]
    pub fn aggregate(&self, calls: impl Into<Vec<Aggregation>>) -> Stream {
        let calls = calls.into();
        let names: Vec<&str> = calls.iter().map(Aggregation::name).collect();
        let place = format!("trailing {}", names.join(", "));
        self.planned(&place, &calls).unwrap_or_else(|reason| {
            reason.map_or(self.keyed.stream.clone(), |reason| self.refused(&place, &reason))
        })
    }

    fn refused(&self, place: &str, reason: &str) -> Stream {
        self.keyed.failed(format!("{place}: {reason}"))
    }

    /// The stream, or why there is none, unless that was kept already.
    fn planned(&self, place: &str, calls: &[Aggregation]) -> Result<Stream, Option<String>> {
        let stream = &self.keyed.stream;
        if stream.table_key.is_some() {
            return Err(Some(
                "rows of an aggregate without a window replace earlier ones, so they have no order; apply it to the \
                 stream that is aggregated"
                    .to_owned(),
            ));
        }
        let event_time = stream.time_column(&self.trailing.time).ok_or(None)?;
        let checked = stream.check_event_time(&self.trailing.time, "no row would ever be written");
        checked.map_err(|cause| Some(cause.to_string()))?;
        let frame = self.trailing.frame().map_err(Some)?;
        let functions: Option<Vec<FunctionSpec>> =
            calls.iter().map(|call| call.running(stream, frame)).collect();
        let build = stream.build.borrow();
        let spec = OverSpec {
            schema: stream.schema.clone(),
            keys: self.keyed.keys.clone(),
            event_time,
            functions: functions.ok_or(None)?,
            ordered: false,
            watermark: stream.watermark(),
            rows_max: build.keys_max_for(self.keyed.keys.len()),
            late: build.late.clone(),
        };
        let failed = FailedResults::Null(build.failed.clone());
        drop(build);
        let output = output_schema(&spec).map_err(|cause| Some(cause.to_string()))?;
        if let Some(twice) = duplicate(&output) {
            return Err(Some(format!(
                "two columns would be named '{twice}'; call .named() on one of the calls"
            )));
        }
        Over::new(spec.clone()).map_err(|cause| Some(cause.to_string()))?;
        let rows = self.keyed.operator(place, &output, move |_| {
            Box::new(
                Over::new(spec.clone()).expect("checked when it was planned").failed_results(failed.clone()),
            )
        });
        Ok(Stream { times: stream.times.clone(), ..rows })
    }
}
