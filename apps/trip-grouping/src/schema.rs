//! The streams of the query: what its source delivers, and what its operators write.

use std::sync::Arc;

use tidemill_engine::arrow::array::cast::AsArray;
use tidemill_engine::arrow::array::types::{Float64Type, Int64Type, UInt32Type};
use tidemill_engine::arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, UInt32Array,
};
use tidemill_engine::arrow::schema::{DataType, Field, Schema, SchemaRef};
use tidemill_engine::{Batch, Cause, Rows};

use crate::request::{Place, Request};
use crate::ride_sharing::{Offer, Trip};
use crate::share::{Member, Share};

/// The columns of a request, in their order.
pub const REQUEST_COLUMNS: [&str; 7] =
    ["id", "requested", "expires", "origin_x_m", "origin_y_m", "destination_x_m", "destination_y_m"];

/// The column behind them that says which group a request is part of.
pub const GROUP_COLUMN: &str = "group";

fn schema(fields: impl IntoIterator<Item = (&'static str, DataType)>) -> SchemaRef {
    let field = |(name, data_type)| Field::new(name, data_type, false);
    Arc::new(Schema::new(fields.into_iter().map(field).collect::<Vec<_>>()))
}

fn request_fields() -> impl Iterator<Item = (&'static str, DataType)> {
    let types = [DataType::Int64, DataType::Int64, DataType::Int64].into_iter();
    REQUEST_COLUMNS.into_iter().zip(types.chain(std::iter::repeat(DataType::Float64)))
}

/// Requests, as they come.
pub fn requests() -> SchemaRef {
    schema(request_fields())
}

/// Requests, each with its group.
pub fn grouped_requests() -> SchemaRef {
    schema(request_fields().chain([(GROUP_COLUMN, DataType::UInt32)]))
}

/// The columns of an offer behind those of its owner's trip.
pub const OFFER_COLUMNS: [&str; 3] = ["leaves_car", "extra_cost_max", "seats"];

/// Offers of rides, as they come.
pub fn offers() -> SchemaRef {
    let terms = [DataType::Boolean, DataType::Float64, DataType::Int64];
    schema(request_fields().chain(OFFER_COLUMNS.into_iter().zip(terms)))
}

/// Offers of rides, each with its group.
pub fn grouped_offers() -> SchemaRef {
    let terms = [DataType::Boolean, DataType::Float64, DataType::Int64];
    let terms = OFFER_COLUMNS.into_iter().zip(terms);
    schema(request_fields().chain(terms).chain([(GROUP_COLUMN, DataType::UInt32)]))
}

/// Requests that nobody took along, each with the end of the cycle in which it was given up.
pub fn unserved_requests() -> SchemaRef {
    schema([("grouped", DataType::Int64)].into_iter().chain(request_fields()))
}

/// Members of shares: a row for each request, with the end of the cycle that grouped it, the lead and the size of its
/// share, the lead's relative detour for it, and what each member of the share saves. The rows of a share follow each
/// other, the lead's first.
pub fn members() -> SchemaRef {
    let share =
        [("grouped", DataType::Int64), ("lead", DataType::Int64), ("members", DataType::UInt32)].into_iter();
    let costs = [("extra_cost", DataType::Float64), ("savings", DataType::Float64)];
    schema(share.chain(request_fields()).chain(costs))
}

/// Shares as rows of [`members`].
///
/// # Errors
/// None that is not a bug.
pub fn rows_of(shares: &[Share]) -> Result<RecordBatch, Cause> {
    let members = || shares.iter().flat_map(|share| share.members.iter().map(move |member| (share, member)));
    let requests: Vec<Request> = members().map(|(_, member)| member.request).collect();
    let mut columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(members().map(|(share, _)| share.grouped))),
        Arc::new(Int64Array::from_iter_values(members().map(|(share, _)| share.lead().id))),
        Arc::new(UInt32Array::from_iter_values(members().map(|(share, _)| share.members.len() as u32))),
    ];
    columns.extend(columns_of(&requests));
    columns.push(Arc::new(Float64Array::from_iter_values(members().map(|(_, member)| member.extra_cost))));
    columns.push(Arc::new(Float64Array::from_iter_values(members().map(|(share, _)| share.savings()))));
    batch(self::members(), columns)
}

/// Requests that nobody took along, as rows of [`unserved_requests`].
///
/// # Errors
/// None that is not a bug.
pub fn unserved_rows(unserved: &[(i64, Request)]) -> Result<RecordBatch, Cause> {
    let requests: Vec<Request> = unserved.iter().map(|(_, request)| *request).collect();
    let grouped = Int64Array::from_iter_values(unserved.iter().map(|(end, _)| *end));
    let mut columns: Vec<ArrayRef> = vec![Arc::new(grouped)];
    columns.extend(columns_of(&requests));
    batch(unserved_requests(), columns)
}

/// Requests with their groups, as rows of [`grouped_requests`].
///
/// # Errors
/// None that is not a bug.
pub fn grouped_request_rows(requests: &[Request], groups: Vec<u32>) -> Result<RecordBatch, Cause> {
    let mut columns = columns_of(requests);
    columns.push(Arc::new(UInt32Array::from(groups)));
    batch(grouped_requests(), columns)
}

/// Offers with their groups, as rows of [`grouped_offers`].
///
/// # Errors
/// None that is not a bug.
pub fn grouped_offer_rows(offers: &[Offer], groups: Vec<u32>) -> Result<RecordBatch, Cause> {
    let mut columns = offer_columns(offers);
    columns.push(Arc::new(UInt32Array::from(groups)));
    batch(grouped_offers(), columns)
}

/// Requests and offers as rows of [`offers`], in one stream, so that their order is known. A request is a row without seats.
///
/// # Errors
/// None that is not a bug.
pub fn trips_batch(trips: &[Trip]) -> Result<Batch, Cause> {
    let offer = |trip: &Trip| match trip {
        Trip::Offer(offer) => *offer,
        Trip::Request(trip) => Offer { trip: *trip, leaves_car: false, extra_cost_max: 0.0, seats: 0 },
    };
    let rows: Vec<Offer> = trips.iter().map(offer).collect();
    let rows = batch(offers(), offer_columns(&rows))?;
    Ok(Batch::from_source(rows, (0..trips.len() as u32).collect()))
}

/// The requests and offers of [`trips_batch`].
pub fn trips_of(rows: &Rows<'_>) -> Vec<Trip> {
    let trip = |offer: Offer| match offer.seats {
        0 => Trip::Request(offer.trip),
        _ => Trip::Offer(offer),
    };
    offers_of(rows).into_iter().map(trip).collect()
}

/// The requests in rows of [`unserved_requests`], each with the end of the cycle in which it was given up.
pub fn unserved_of(unserved: &Batch) -> Vec<(i64, Request)> {
    let rows = unserved.as_rows();
    let ends = rows.column::<Int64Type>(0);
    ends.iter().copied().zip(requests_of(&rows, 1)).collect()
}

/// The offers in rows of [`offers`]. A number of seats that no car has is [refused](Offer::check) as 0.
pub fn offers_of(rows: &Rows<'_>) -> Vec<Offer> {
    let first = REQUEST_COLUMNS.len();
    let batch = rows.to_batch();
    let leaves_car = batch.column(first).as_boolean().clone();
    let (extra_costs, seats) = (rows.column::<Float64Type>(first + 1), rows.column::<Int64Type>(first + 2));
    let offer = |(row, trip): (usize, Request)| Offer {
        trip,
        leaves_car: leaves_car.value(row),
        extra_cost_max: extra_costs[row],
        seats: usize::try_from(seats[row]).unwrap_or(0),
    };
    requests_of(rows, 0).enumerate().map(offer).collect()
}

/// The shares of a batch of [`members`].
pub fn shares_of(members: &Batch) -> Vec<Share> {
    let rows = members.as_rows();
    let (grouped, sizes) = (rows.column::<Int64Type>(0), rows.column::<UInt32Type>(2));
    let (extra_costs, savings) = (rows.column::<Float64Type>(10), rows.column::<Float64Type>(11));
    let requests: Vec<Request> = requests_of(&rows, 3).collect();
    let (mut shares, mut row) = (Vec::new(), 0);
    while row < rows.len() {
        let end = row + (sizes[row].max(1) as usize).min(rows.len() - row);
        let member = |row: usize| Member { request: requests[row], extra_cost: extra_costs[row] };
        let members = (row..end).map(member).collect();
        shares.push(Share { grouped: grouped[row], members, amortized_cost: 1.0 - savings[row] });
        row = end;
    }
    shares
}

/// The requests in rows whose column `first` is the id, with the others behind it.
pub fn requests_of<'a>(rows: &Rows<'a>, first: usize) -> impl Iterator<Item = Request> + use<'a> {
    let time = |column: usize| rows.column::<Int64Type>(first + column);
    let coordinate = |column: usize| rows.column::<Float64Type>(first + column);
    let (ids, requested, expires) = (time(0), time(1), time(2));
    let (from_x, from_y, to_x, to_y) = (coordinate(3), coordinate(4), coordinate(5), coordinate(6));
    (0..rows.len()).map(move |row| Request {
        id: ids[row],
        requested: requested[row],
        expires: expires[row],
        origin: Place { x_m: from_x[row], y_m: from_y[row] },
        destination: Place { x_m: to_x[row], y_m: to_y[row] },
    })
}

/// Requests as rows of the source; their positions count from 0.
///
/// # Errors
/// None that is not a bug.
pub fn batch_of(requests: &[Request]) -> Result<Batch, Cause> {
    let rows = batch(self::requests(), columns_of(requests))?;
    Ok(Batch::from_source(rows, (0..requests.len() as u32).collect()))
}

/// The columns of requests, with times as whole seconds.
fn columns_of(requests: &[Request]) -> Vec<ArrayRef> {
    columns_with_times(requests, |times_s| Arc::new(Int64Array::from(times_s)))
}

/// The columns of requests; `times` makes a column of seconds.
pub(crate) fn columns_with_times(
    requests: &[Request],
    times: impl Fn(Vec<i64>) -> ArrayRef,
) -> Vec<ArrayRef> {
    let times = |of: fn(&Request) -> i64| times(requests.iter().map(of).collect());
    let coordinates = |of: fn(&Request) -> f64| {
        Arc::new(Float64Array::from_iter_values(requests.iter().map(of))) as ArrayRef
    };
    vec![
        Arc::new(Int64Array::from_iter_values(requests.iter().map(|request| request.id))),
        times(|request| request.requested),
        times(|request| request.expires),
        coordinates(|request| request.origin.x_m),
        coordinates(|request| request.origin.y_m),
        coordinates(|request| request.destination.x_m),
        coordinates(|request| request.destination.y_m),
    ]
}

fn offer_columns(offers: &[Offer]) -> Vec<ArrayRef> {
    let trips: Vec<Request> = offers.iter().map(|offer| offer.trip).collect();
    let mut columns = columns_of(&trips);
    columns.extend(offer_terms(offers));
    columns
}

/// The [`OFFER_COLUMNS`] of offers.
pub(crate) fn offer_terms(offers: &[Offer]) -> [ArrayRef; 3] {
    let leaves_car: Vec<bool> = offers.iter().map(|offer| offer.leaves_car).collect();
    let extra_costs = offers.iter().map(|offer| offer.extra_cost_max);
    [
        Arc::new(BooleanArray::from(leaves_car)),
        Arc::new(Float64Array::from_iter_values(extra_costs)),
        Arc::new(Int64Array::from_iter_values(offers.iter().map(|offer| offer.seats as i64))),
    ]
}

fn batch(schema: SchemaRef, columns: Vec<ArrayRef>) -> Result<RecordBatch, Cause> {
    RecordBatch::try_new(schema, columns).map_err(|error| Cause::bug(error.to_string()).with_source(error))
}
