//! The query: for each view its key and how often that key was viewed so far.

use std::sync::Arc;

use tidemill_engine::arrow::array::types::{UInt32Type, UInt64Type};
use tidemill_engine::arrow::schema::{DataType, Field, Schema, SchemaRef};
use tidemill_engine::{
    Cause, Operator, OperatorPlan, Output, Plan, Rows, SnapshotReader, SnapshotWriter, route_by_key,
};

/// Logical partitions of the operator.
const PARTITIONS: u32 = 16;

/// A view: its key, and its number in the stream.
pub fn views() -> SchemaRef {
    schema(&[("key", DataType::UInt32), ("number", DataType::UInt64)])
}

/// The plan: views, counted by key, one answer for each.
pub fn plan() -> Plan {
    let mut plan = Plan::new("running count");
    let views = plan.source("views", [views()]);
    let counts =
        schema(&[("key", DataType::UInt32), ("number", DataType::UInt64), ("count", DataType::UInt64)]);
    let count = OperatorPlan::new("count", PARTITIONS, |_| Box::new(Count::default()))
        .input(views[0], &["key", "number"], route_by_key::<UInt32Type>(0, PARTITIONS))
        .output(counts);
    let counts = plan.operator(count);
    plan.sink("answers", counts);
    plan
}

fn schema(columns: &[(&str, DataType)]) -> SchemaRef {
    let field = |(name, data_type): &(&str, DataType)| Field::new(*name, data_type.clone(), false);
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

/// Counts of the keys of a partition, by key / partitions.
#[derive(Default)]
struct Count(Vec<u64>);

impl Operator for Count {
    fn rows(&mut self, _input: usize, rows: Rows<'_>, output: &mut Output) -> Result<(), Cause> {
        let (keys, numbers) = (rows.column::<UInt32Type>(0), rows.column::<UInt64Type>(1));
        let mut answers = output.port(0).writer();
        for ((key, number), position) in keys.iter().zip(numbers).zip(rows.positions()) {
            let slot = (key / PARTITIONS) as usize;
            if slot >= self.0.len() {
                self.0.resize(slot + 1, 0);
            }
            self.0[slot] += 1;
            answers.push(*position, (*key, *number, self.0[slot]));
        }
        Ok(())
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u64(self.0.len() as u64);
        self.0.iter().for_each(|count| writer.u64(*count));
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        let keys = reader.u64()?;
        self.0 = (0..keys).map(|_| reader.u64()).collect::<Result<_, _>>()?;
        Ok(())
    }
}
