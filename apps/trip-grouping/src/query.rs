//! The query, which turns requests into shares.
//!
//! ```text
//! requests --> partition --by group--> group trips --> members of shares
//! ```

use tidemill_engine::arrow::array::types::UInt32Type;
use tidemill_engine::{Cause, OperatorPlan, Plan, Route, StreamRef, route_by_value};

use crate::criteria::Criteria;
use crate::operators::{GroupTrips, Partition};
use crate::partitioner::PartitionerPlan;
use crate::schema::{self, REQUEST_COLUMNS};

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

/// Borders depend on all requests.
fn all_to_the_first() -> Box<Route> {
    Box::new(|rows, destinations| destinations.extend(std::iter::repeat_n(0, rows.num_rows())))
}
