//! `share_rides(TABLE(requests), TABLE(offers), cycle => INTERVAL '1 minute')`: the operator of ride sharing as a function of
//! SQL.

use std::sync::Arc;

use tidemill_engine::arrow::array::{ArrayRef, RecordBatch, new_null_array};
use tidemill_engine::arrow::schema::{DataType, Field, Schema, SchemaRef};
use tidemill_engine::{Batch, Cause, Cut, Operator, Output, Rows, SnapshotReader, SnapshotWriter};
use tidemill_sql::{Arguments, BoundOperator, TableOperator};
use tidemill_trip_grouping::operators::ShareRides;
use tidemill_trip_grouping::schema::{self, OFFER_COLUMNS};
use tidemill_trip_grouping::source::trip_requests_schema;

use super::trip_columns::{TripColumns, as_time, bug, timestamp};

const DAY_NS: i64 = 86_400_000_000_000;
const MINUTE_NS: i64 = 60_000_000_000;

const NAME: &str = "share_rides";
/// Columns of the operator's rows that are times: `grouped`, `requested` and `expires`.
const TIMES: [&str; 3] = ["grouped", "requested", "expires"];

/// The function.
pub(super) struct ShareRidesFunction;

impl TableOperator for ShareRidesFunction {
    fn bind(&self, inputs: &[SchemaRef], arguments: &Arguments) -> Result<BoundOperator, Cause> {
        arguments.finish(&["cycle"])?;
        let cycle_ns = arguments.interval_ns("cycle")?.unwrap_or(MINUTE_NS);
        if !(1..=DAY_NS).contains(&cycle_ns) {
            return Err(Cause::user("share_rides(): cycle must be a positive interval of at most a day"));
        }
        if inputs.len() != 2 {
            return Err(Cause::user(format!(
                "share_rides() takes two tables, of requests and of offers; found {}; write \
                 share_rides(TABLE(requests), TABLE(offers))",
                inputs.len()
            )));
        }
        let requests: Vec<Arc<Field>> = trip_requests_schema().fields().iter().cloned().collect();
        let types = [DataType::Boolean, DataType::Float64, DataType::Int64];
        let terms = OFFER_COLUMNS.into_iter().zip(types);
        let terms = terms.map(|(name, data_type)| Arc::new(Field::new(name, data_type, true)));
        let offers: Vec<Arc<Field>> = requests.iter().cloned().chain(terms).collect();
        let columns = [
            TripColumns::find((NAME, "request"), &requests, schema::requests(), inputs.first())?,
            TripColumns::find((NAME, "offer"), &offers, schema::offers(), inputs.get(1))?,
        ];
        Ok(BoundOperator {
            output: output_schema(),
            // Whoever may share must meet: sub-streams are the way to divide requests and offers.
            keys: vec![Vec::new(), Vec::new()],
            carried: Vec::new(),
            factory: Arc::new(move |_| {
                let sharing = ShareRides::new(cycle_ns).expect("the cycle was checked above");
                let written = Output::new(&[schema::members(), schema::unserved_requests()]);
                Box::new(OfRows { sharing, columns: columns.clone(), written })
            }),
        })
    }
}

/// The operator between the types of SQL and its own.
struct OfRows {
    sharing: ShareRides,
    /// The columns of requests, and of offers.
    columns: [TripColumns; 2],
    written: Output,
}

impl Operator for OfRows {
    fn rows(&mut self, input: usize, rows: Rows<'_>, _output: &mut Output) -> Result<(), Cause> {
        let given = self.columns[input].of(&rows.to_batch())?;
        let batch = Batch::from_source(given, rows.positions().to_vec().into());
        self.sharing.rows(input, batch.as_rows(), &mut self.written)
    }

    fn end_of_cycle(&mut self, cut: &Cut, output: &mut Output) -> Result<(), Cause> {
        self.sharing.end_of_cycle(cut, &mut self.written)?;
        for port in 0..2 {
            let Some(found) = self.written.finish(port) else { continue };
            let rows = in_sql(&found.rows, output.port(0).schema())?;
            let positions = vec![output.end_position(); rows.num_rows()];
            output.port(0).push_batch(rows, &positions)?;
        }
        Ok(())
    }

    fn next_timer(&self) -> Option<i64> {
        self.sharing.next_timer()
    }

    fn state_bytes(&self) -> usize {
        self.sharing.state_bytes()
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        self.sharing.snapshot(writer);
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        self.sharing.restore(reader)
    }
}

/// Rows with the columns of this schema. Those that they do not have are NULL: nobody leads a request that is not served.
fn in_sql(rows: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, Cause> {
    let column = |field: &Arc<Field>| -> ArrayRef {
        match rows.column_by_name(field.name()) {
            Some(column) if TIMES.contains(&field.name().as_str()) => as_time(column),
            Some(column) => Arc::clone(column),
            None => new_null_array(field.data_type(), rows.num_rows()),
        }
    };
    RecordBatch::try_new(Arc::clone(schema), schema.fields().iter().map(column).collect()).map_err(bug)
}

/// The columns of members, with times, and nullable.
fn output_schema() -> SchemaRef {
    let field = |field: &Arc<Field>| {
        let is_time = TIMES.contains(&field.name().as_str());
        let data_type = if is_time { timestamp() } else { field.data_type().clone() };
        Field::new(field.name(), data_type, true)
    };
    Arc::new(Schema::new(schema::members().fields().iter().map(field).collect::<Vec<_>>()))
}
