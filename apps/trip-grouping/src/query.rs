//! The queries: one turns requests into shares, the other one requests and offers into rides.
//!
//! ```text
//! requests --> partition --by group--> group trips --> members of shares
//!
//! requests --> partition --by group--> share rides --> members of rides
//! and offers                                      \--> requests that nobody took along
//! ```

use tidemill_engine::arrow::array::types::UInt32Type;
use tidemill_engine::{Cause, OperatorPlan, Plan, Route, StreamRef, route_by_value};

use crate::criteria::Criteria;
use crate::operators::{GroupTrips, Partition, PartitionTrips, ShareRides};
use crate::partitioner::PartitionerPlan;
use crate::schema::{self, OFFER_COLUMNS, REQUEST_COLUMNS};

/// The plan. Its source takes [requests](schema::requests) in the order of their times, its sink
/// [members](schema::members) of shares. Times are seconds or any other unit, and so are watermarks.
///
/// # Errors
/// If the criteria are out of range.
pub fn plan(partitioner: PartitionerPlan, criteria: Criteria) -> Result<Plan, Cause> {
    GroupTrips::new(criteria)?;
    let groups = partitioner.groups();
    let mut plan = Plan::new("trip grouping");
    let requests: Vec<StreamRef> = plan.source("requests", [schema::requests()]);
    let partition = plan.operator(
        OperatorPlan::new("partition", 1, move |_| Box::new(Partition::new(partitioner.start())))
            .input(requests[0], &REQUEST_COLUMNS, all_to_the_first())
            .output(schema::grouped_requests()),
    );
    let group_trips = plan.operator(
        OperatorPlan::new("group trips", groups, move |_| {
            Box::new(GroupTrips::new(criteria).expect("the criteria were checked above"))
        })
        .input(partition[0], &REQUEST_COLUMNS, route_by_value::<UInt32Type>(REQUEST_COLUMNS.len()))
        .output(schema::members()),
    );
    plan.sink("shares", [group_trips[0]]);
    Ok(plan)
}

/// The plan of ride sharing. Its source takes [requests and offers](schema::trips_batch) in the order of their times; its
/// sink takes the [members](schema::members) of each car that leaves, and the
/// [requests](schema::unserved_requests) that nobody took along. Cars leave at multiples of the cycle.
///
/// # Errors
/// If there can be no such cycle.
pub fn rides_plan(partitioner: PartitionerPlan, cycle: i64) -> Result<Plan, Cause> {
    ShareRides::new(cycle)?;
    let groups = partitioner.groups();
    let mut plan = Plan::new("ride sharing");
    let trips: Vec<StreamRef> = plan.source("trips", [schema::offers()]);
    let offer_columns: Vec<&str> = REQUEST_COLUMNS.into_iter().chain(OFFER_COLUMNS).collect();
    let partition = plan.operator(
        OperatorPlan::new("partition", 1, move |_| Box::new(PartitionTrips::new(partitioner.start())))
            .input(trips[0], &offer_columns, all_to_the_first())
            .output(schema::grouped_requests())
            .output(schema::grouped_offers()),
    );
    let share_rides = plan.operator(
        OperatorPlan::new("share rides", groups, move |_| {
            Box::new(ShareRides::new(cycle).expect("the cycle was checked above"))
        })
        .input(partition[0], &REQUEST_COLUMNS, route_by_value::<UInt32Type>(REQUEST_COLUMNS.len()))
        .input(partition[1], &offer_columns, route_by_value::<UInt32Type>(offer_columns.len()))
        .output(schema::members())
        .output(schema::unserved_requests()),
    );
    plan.sink("rides", [share_rides[0], share_rides[1]]);
    Ok(plan)
}

/// Borders depend on all requests.
fn all_to_the_first() -> Box<Route> {
    Box::new(|rows, destinations| destinations.extend(std::iter::repeat_n(0, rows.num_rows())))
}
