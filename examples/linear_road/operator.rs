//! Linear Road's native operator as a function of SQL: `linear_road(TABLE(reports), answers => 'tolls')`.

use std::sync::Arc;

use tidemill_engine::arrow::array::types::UInt8Type;
use tidemill_engine::arrow::schema::{Field, Schema, SchemaRef};
use tidemill_engine::{Cause, Cut, Operator, Output, Rows, SnapshotReader, SnapshotWriter};
use tidemill_linear_road::event::{EXIT_LANE, SEGMENTS};
use tidemill_linear_road::schema;
use tidemill_linear_road::tolls::{ACCIDENT_PORT, CHARGE_PORT, TOLL_PORT, Tolls};
use tidemill_sql::{Arguments, BoundOperator, TableOperator};

/// The operator writes three streams; a call in FROM has one, which the argument `answers` chooses.
pub struct LinearRoad;

impl TableOperator for LinearRoad {
    fn bind(&self, inputs: &[SchemaRef], arguments: &Arguments) -> Result<BoundOperator, Cause> {
        arguments.finish(&["answers"])?;
        let answers = arguments.text("answers")?.unwrap_or("tolls");
        let ports = [("tolls", TOLL_PORT), ("accidents", ACCIDENT_PORT), ("charges", CHARGE_PORT)];
        let Some((_, port)) = ports.into_iter().find(|(name, _)| *name == answers) else {
            return Err(Cause::user(format!(
                "linear_road(): answers must be 'tolls', 'accidents' or 'charges', found '{answers}'"
            )));
        };
        check_columns(inputs)?;
        Ok(BoundOperator {
            output: nullable(&port_schemas()[port]),
            // An expressway's state is in one partition.
            keys: vec![vec!["xway".into()]],
            carried: Vec::new(),
            factory: Arc::new(move |_| {
                Box::new(Chosen { tolls: Tolls::new(1), written: Output::new(&port_schemas()), port })
            }),
        })
    }
}

/// The operator with one of its streams.
struct Chosen {
    tolls: Tolls,
    written: Output,
    port: usize,
}

impl Operator for Chosen {
    fn rows(&mut self, input: usize, rows: Rows<'_>, output: &mut Output) -> Result<(), Cause> {
        check_values(&rows)?;
        self.tolls.rows(input, rows, &mut self.written)?;
        for port in [TOLL_PORT, ACCIDENT_PORT, CHARGE_PORT] {
            let written = self.written.finish(port);
            if let Some(written) = written.filter(|_| port == self.port) {
                output.port(0).push_batch(written.rows, &written.positions)?;
            }
        }
        Ok(())
    }

    fn end_of_cycle(&mut self, cut: &Cut, _output: &mut Output) -> Result<(), Cause> {
        self.tolls.end_of_cycle(cut, &mut self.written)
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        self.tolls.snapshot(writer);
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        self.tolls.restore(reader)
    }
}

fn port_schemas() -> [SchemaRef; 3] {
    [schema::toll_notifications(), schema::accident_notifications(), schema::charges()]
}

/// Columns of queries may be NULL, for expressions promise nothing else.
fn nullable(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
    Arc::new(Schema::new(fields.collect::<Vec<Field>>()))
}

/// The operator reads its columns by number, in its own types.
fn check_columns(inputs: &[SchemaRef]) -> Result<(), Cause> {
    let wanted = schema::reports();
    let describe = |field: &Arc<Field>| format!("{} {}", field.name(), field.data_type());
    let wanted: Vec<String> = wanted.fields().iter().map(describe).collect();
    let given: Vec<String> = inputs.iter().flat_map(|input| input.fields().iter().map(describe)).collect();
    if inputs.len() == 1 && given == wanted {
        Ok(())
    } else {
        Err(Cause::user(format!(
            "linear_road() takes one table with the columns {}; found {}; SELECT and CAST them accordingly",
            wanted.join(", "),
            given.join(", ")
        )))
    }
}

/// The operator relies on valid reports; what comes out of a query may be anything.
fn check_values(rows: &Rows<'_>) -> Result<(), Cause> {
    let batch = rows.to_batch();
    let at_most = |column: usize, largest: usize| {
        rows.column::<UInt8Type>(column).iter().all(|value| usize::from(*value) <= largest)
    };
    let has_nulls = batch.columns().iter().any(|column| column.null_count() > 0);
    if !has_nulls && at_most(4, EXIT_LANE.into()) && at_most(5, 1) && at_most(6, SEGMENTS - 1) {
        Ok(())
    } else {
        Err(Cause::user(
            "linear_road() got a report with NULL, or with lane above 4, dir above 1 or seg above 99; exclude \
             such rows with WHERE",
        ))
    }
}
