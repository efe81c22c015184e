//! `group_trips(TABLE(requests), max_share => 4, min_savings => 0.2)`: the operator of trip grouping as a function of SQL.

use std::sync::Arc;

use tidemill_engine::arrow::array::RecordBatch;
use tidemill_engine::arrow::schema::{Field, Schema, SchemaRef};
use tidemill_engine::{Batch, Cause, Cut, Operator, Output, Rows, SnapshotReader, SnapshotWriter};
use tidemill_sql::{Arguments, BoundOperator, TableOperator};
use tidemill_trip_grouping::criteria::{Criteria, Order, SHARE_MAX};
use tidemill_trip_grouping::operators::GroupTrips;
use tidemill_trip_grouping::schema;
use tidemill_trip_grouping::source::trip_requests_schema;

use super::trip_columns::{TripColumns, as_time, bug, timestamp};

const DAY_NS: i64 = 86_400_000_000_000;
const MINUTE_NS: i64 = 60_000_000_000;

/// Columns of the operator's rows that are times: `grouped`, `requested` and `expires`.
const TIMES: [usize; 3] = [0, 4, 5];

/// The function.
pub(super) struct GroupTripsFunction;

impl TableOperator for GroupTripsFunction {
    fn bind(&self, inputs: &[SchemaRef], arguments: &Arguments) -> Result<BoundOperator, Cause> {
        arguments.finish(&["max_share", "min_savings", "cycle", "greed"])?;
        let defaults = Criteria { cycle: MINUTE_NS, ..Criteria::default() };
        let max_share = arguments.integer("max_share", 2..=SHARE_MAX as i64)?;
        let criteria = Criteria {
            max_share: max_share.map_or(defaults.max_share, |people| people as usize),
            min_savings: arguments.number("min_savings", 0.0..=1.0)?.unwrap_or(defaults.min_savings),
            cycle: arguments.interval_ns("cycle")?.unwrap_or(defaults.cycle),
            order: match arguments.text("greed")? {
                None | Some("arrival") => Order::Arrival,
                Some("cheapest") => Order::CheapestFirst,
                Some(other) => {
                    let text =
                        format!("group_trips(): greed must be 'arrival' or 'cheapest', found '{other}'");
                    return Err(Cause::user(text));
                }
            },
        };
        if !(1..=DAY_NS).contains(&criteria.cycle) {
            return Err(Cause::user("group_trips(): cycle must be a positive interval of at most a day"));
        }
        // Whatever else is wrong is said before the query starts.
        GroupTrips::new(criteria)?;
        let wanted = trip_requests_schema();
        let input = inputs.first().filter(|_| inputs.len() == 1);
        let columns =
            TripColumns::find(("group_trips", "request"), wanted.fields(), schema::requests(), input)?;
        Ok(BoundOperator {
            output: output_schema(),
            // Whoever may share must meet: sub-streams are the way to divide requests.
            keys: vec![Vec::new()],
            carried: Vec::new(),
            factory: Arc::new(move |_| {
                let grouping = GroupTrips::new(criteria).expect("the criteria were checked above");
                let written = Output::new(&[schema::members()]);
                Box::new(OfRows { grouping, columns: columns.clone(), written })
            }),
        })
    }
}

/// The operator between the types of SQL and its own.
struct OfRows {
    grouping: GroupTrips,
    columns: TripColumns,
    written: Output,
}

impl Operator for OfRows {
    fn rows(&mut self, input: usize, rows: Rows<'_>, _output: &mut Output) -> Result<(), Cause> {
        let requests = self.columns.of(&rows.to_batch())?;
        let batch = Batch::from_source(requests, rows.positions().to_vec().into());
        self.grouping.rows(input, batch.as_rows(), &mut self.written)
    }

    fn end_of_cycle(&mut self, cut: &Cut, output: &mut Output) -> Result<(), Cause> {
        self.grouping.end_of_cycle(cut, &mut self.written)?;
        let Some(members) = self.written.finish(0) else { return Ok(()) };
        let columns = members.rows.columns().iter().enumerate();
        let columns = columns
            .map(|(index, column)| if TIMES.contains(&index) { as_time(column) } else { Arc::clone(column) });
        let port = output.port(0);
        let rows = RecordBatch::try_new(Arc::clone(port.schema()), columns.collect()).map_err(bug)?;
        let positions = vec![output.end_position(); rows.num_rows()];
        output.port(0).push_batch(rows, &positions)
    }

    fn next_timer(&self) -> Option<i64> {
        self.grouping.next_timer()
    }

    fn state_bytes(&self) -> usize {
        self.grouping.state_bytes()
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        self.grouping.snapshot(writer);
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        self.grouping.restore(reader)
    }
}

/// The columns of members, with times, and nullable: expressions promise nothing else.
fn output_schema() -> SchemaRef {
    let members = schema::members();
    let field = |(index, field): (usize, &Arc<Field>)| {
        let data_type = if TIMES.contains(&index) { timestamp() } else { field.data_type().clone() };
        Field::new(field.name(), data_type, true)
    };
    Arc::new(Schema::new(members.fields().iter().enumerate().map(field).collect::<Vec<_>>()))
}
