//! `trip_requests` and `trip_offers`: the generator's day as sources of rows, for queries in SQL.

use std::sync::Arc;
use std::time::Duration;

use tidemill_engine::arrow::array::{ArrayRef, RecordBatch, TimestampNanosecondArray};
use tidemill_engine::arrow::schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use tidemill_engine::{Cause, Polled, Progress, Source};

use crate::generator::{DayWithOffers, GeneratorConfig};
use crate::request::Request;
use crate::ride_sharing::Offer;
use crate::schema::{OFFER_COLUMNS, REQUEST_COLUMNS, columns_with_times, offer_terms};

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

/// The columns of [`TripOffers`]: those of a request, and the terms of the offer.
pub fn trip_offers_schema() -> SchemaRef {
    let types = [DataType::Boolean, DataType::Float64, DataType::Int64];
    let terms = OFFER_COLUMNS.into_iter().zip(types);
    let terms = terms.map(|(name, data_type)| Arc::new(Field::new(name, data_type, false)));
    let fields = trip_requests_schema().fields().iter().cloned().chain(terms).collect::<Vec<_>>();
    Arc::new(Schema::new(fields))
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
}

/// The offers of a generated day in the order of their times, as fast as they are taken.
///
/// ```
/// use std::time::Duration;
/// use tidemill_engine::{Polled, Source};
/// use tidemill_trip_grouping::generator::GeneratorConfig;
/// use tidemill_trip_grouping::source::TripOffers;
///
/// let mut offers = TripOffers::new(GeneratorConfig { people: 100, ..GeneratorConfig::default() }, 50)?;
/// let Polled::Rows(rows) = offers.poll(Duration::ZERO)? else { panic!("there are rows") };
/// assert_eq!(rows.schema().field(9).name(), "seats");
/// # Ok::<(), tidemill_engine::Cause>(())
/// ```
#[derive(Debug)]
pub struct TripOffers {
    offers: Vec<Offer>,
    next: usize,
}

impl TripRequests {
    /// The day of this configuration.
    ///
    /// # Errors
    /// [`Cause::user`] if such a city is not possible.
    pub fn new(config: GeneratorConfig) -> Result<TripRequests, Cause> {
        TripRequests::with_drivers(config, 0)
    }

    /// The same without the trips of this percentage of people, who [offer](TripOffers) rides instead.
    ///
    /// # Errors
    /// [`Cause::user`] if such a city is not possible.
    pub fn with_drivers(config: GeneratorConfig, drivers_percent: u32) -> Result<TripRequests, Cause> {
        Ok(TripRequests { requests: day(config, drivers_percent)?.requests, next: 0 })
    }
}

impl TripOffers {
    /// The day of this configuration, with this percentage of people who offer rides.
    ///
    /// # Errors
    /// [`Cause::user`] if such a city is not possible.
    pub fn new(config: GeneratorConfig, drivers_percent: u32) -> Result<TripOffers, Cause> {
        Ok(TripOffers { offers: day(config, drivers_percent)?.offers, next: 0 })
    }
}

fn day(config: GeneratorConfig, drivers_percent: u32) -> Result<DayWithOffers, Cause> {
    config.day_with_offers(drivers_percent).map_err(|error| Cause::user(error.to_string()).with_source(error))
}

/// The next rows, at most a batch of them.
fn next_of<'a, T>(all: &'a [T], next: &mut usize) -> &'a [T] {
    let end = all.len().min(*next + BATCH_ROWS);
    &all[std::mem::replace(next, end)..end]
}

impl Source for TripRequests {
    fn schema(&self) -> SchemaRef {
        trip_requests_schema()
    }

    fn poll(&mut self, _wait: Duration) -> Result<Polled, Cause> {
        match next_of(&self.requests, &mut self.next) {
            [] => Ok(Polled::Ended),
            requests => rows(trip_requests_schema(), columns_of(requests)),
        }
    }

    fn progress(&self) -> Progress {
        Progress { done: self.next as u64, total: Some(self.requests.len() as u64) }
    }

    fn is_finite(&self) -> bool {
        true
    }
}

impl Source for TripOffers {
    fn schema(&self) -> SchemaRef {
        trip_offers_schema()
    }

    fn poll(&mut self, _wait: Duration) -> Result<Polled, Cause> {
        let offers = next_of(&self.offers, &mut self.next);
        if offers.is_empty() {
            return Ok(Polled::Ended);
        }
        let trips: Vec<Request> = offers.iter().map(|offer| offer.trip).collect();
        let mut columns = columns_of(&trips);
        columns.extend(offer_terms(offers));
        rows(trip_offers_schema(), columns)
    }

    fn progress(&self) -> Progress {
        Progress { done: self.next as u64, total: Some(self.offers.len() as u64) }
    }

    fn is_finite(&self) -> bool {
        true
    }
}

fn columns_of(requests: &[Request]) -> Vec<ArrayRef> {
    columns_with_times(requests, |times_s| {
        let times_ns = times_s.into_iter().map(|time_s| time_s * NS_PER_S);
        Arc::new(TimestampNanosecondArray::from_iter_values(times_ns))
    })
}

fn rows(schema: SchemaRef, columns: Vec<ArrayRef>) -> Result<Polled, Cause> {
    RecordBatch::try_new(schema, columns)
        .map(Polled::Rows)
        .map_err(|error| Cause::bug(error.to_string()).with_source(error))
}
