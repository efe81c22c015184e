//! Writes the group of each request beside it.

use std::sync::Arc;

use tidemill_engine::arrow::array::{RecordBatch, UInt32Array};
use tidemill_engine::{Cause, Operator, Output, Rows, SnapshotReader, SnapshotWriter};

use crate::partitioner::Partitioner;
use crate::schema;

/// Takes [requests](schema::requests) in the order of their times, and writes [requests with their
/// groups](schema::grouped_requests). It has one partition, because borders depend on all requests.
pub struct Partition {
    partitioner: Partitioner,
}

impl Partition {
    /// Divides requests as this partitioner does.
    pub fn new(partitioner: Partitioner) -> Self {
        Partition { partitioner }
    }
}

impl Operator for Partition {
    fn rows(&mut self, _input: usize, rows: Rows<'_>, output: &mut Output) -> Result<(), Cause> {
        let groups = schema::requests_of(&rows, 0).map(|request| self.partitioner.group(&request));
        let groups = Arc::new(UInt32Array::from_iter_values(groups));
        let mut columns = rows.to_batch().columns().to_vec();
        columns.push(groups);
        let port = output.port(0);
        let rows_with_groups = RecordBatch::try_new(Arc::clone(port.schema()), columns)
            .map_err(|error| Cause::bug(error.to_string()).with_source(error))?;
        port.push_batch(rows_with_groups, rows.positions())
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        self.partitioner.snapshot(writer);
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        self.partitioner.restore(reader)
    }
}
