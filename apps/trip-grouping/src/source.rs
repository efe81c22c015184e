//! `trip_requests`: the generator's day as a source of rows, for queries in SQL.

use std::sync::Arc;
use std::time::Duration;

use tidemill_engine::arrow::array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, TimestampNanosecondArray,
};
use tidemill_engine::arrow::schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use tidemill_engine::{Cause, Polled, Progress, Source};

use crate::generator::GeneratorConfig;
use crate::request::Request;
use crate::schema::REQUEST_COLUMNS;

/// Rows of a full batch.
const BATCH_ROWS: usize = 8192;
const NS_PER_S: i64 = 1_000_000_000;

/// The columns of [`TripRequests`]: those of a request, its times as TIMESTAMP in nanoseconds, from 1970 on.
pub fn trip_requests_schema() -> SchemaRef {
    let timestamp = || DataType::Timestamp(TimeUnit::Nanosecond, None);
    let types = [DataType::Int64, timestamp(), timestamp()].into_iter();
    let types = types.chain(std::iter::repeat(DataType::Float64));
    let field = |(name, data_type)| Field::new(name, data_type, false);
    Arc::new(Schema::new(REQUEST_COLUMNS.into_iter().zip(types).map(field).collect::<Vec<_>>()))
}

/// The requests of a generated day in the order of their times, as fast as they are taken.
///
/// ```
/// use std::time::Duration;
/// use tidemill_engine::{Polled, Source};
/// use tidemill_trip_grouping::generator::GeneratorConfig;
/// use tidemill_trip_grouping::source::TripRequests;
///
/// let mut requests = TripRequests::new(GeneratorConfig { people: 100, ..GeneratorConfig::default() })?;
/// let Polled::Rows(rows) = requests.poll(Duration::ZERO)? else { panic!("there are rows") };
/// assert_eq!(rows.schema().field(1).name(), "requested");
/// assert!(matches!(requests.poll(Duration::ZERO)?, Polled::Ended));
/// # Ok::<(), tidemill_engine::Cause>(())
/// ```
#[derive(Debug)]
pub struct TripRequests {
    requests: Vec<Request>,
    next: usize,
    schema: SchemaRef,
}

impl TripRequests {
    /// The day of this configuration.
    ///
    /// # Errors
    /// [`Cause::user`] if such a city is not possible.
    pub fn new(config: GeneratorConfig) -> Result<TripRequests, Cause> {
        let day = config.day().map_err(|error| Cause::user(error.to_string()).with_source(error))?;
        Ok(TripRequests { requests: day.requests, next: 0, schema: trip_requests_schema() })
    }
}

impl Source for TripRequests {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn poll(&mut self, _wait: Duration) -> Result<Polled, Cause> {
        let end = self.requests.len().min(self.next + BATCH_ROWS);
        let requests = &self.requests[self.next..end];
        if requests.is_empty() {
            return Ok(Polled::Ended);
        }
        self.next = end;
        let time = |of: fn(&Request) -> i64| {
            let times = requests.iter().map(|request| of(request) * NS_PER_S);
            Arc::new(TimestampNanosecondArray::from_iter_values(times)) as ArrayRef
        };
        let coordinate = |of: fn(&Request) -> f64| {
            Arc::new(Float64Array::from_iter_values(requests.iter().map(of))) as ArrayRef
        };
        let columns = vec![
            Arc::new(Int64Array::from_iter_values(requests.iter().map(|request| request.id))) as ArrayRef,
            time(|request| request.requested),
            time(|request| request.expires),
            coordinate(|request| request.origin.x_m),
            coordinate(|request| request.origin.y_m),
            coordinate(|request| request.destination.x_m),
            coordinate(|request| request.destination.y_m),
        ];
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
            .map(Polled::Rows)
            .map_err(|error| Cause::bug(error.to_string()).with_source(error))
    }

    fn progress(&self) -> Progress {
        Progress { done: self.next as u64, total: Some(self.requests.len() as u64) }
    }

    fn is_finite(&self) -> bool {
        true
    }
}
