//! What operators write: rows on the ports of an operator, gathered over all its partitions on a worker.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;

use crate::batch::Batch;
use crate::column::{self, Column, Row};
use crate::error::Cause;

/// The output ports of an operator on one worker, for one cycle.
#[derive(Debug)]
pub struct Output {
    ports: Vec<Port>,
    end_position: u32,
}

/// One output port under construction.
#[derive(Debug)]
pub struct Port {
    schema: SchemaRef,
    columns: Vec<Column>,
    positions: Vec<u32>,
    /// (partition, first row) for each partition that was given the port.
    origins: Vec<(u32, u32)>,
}

impl Output {
    /// Ports with these schemas.
    ///
    /// # Errors
    /// If a column's type cannot be built row by row.
    pub fn new(schemas: &[SchemaRef]) -> Result<Self, Cause> {
        let ports = schemas.iter().map(Port::new).collect::<Result<_, _>>()?;
        Ok(Output { ports, end_position: 0 })
    }

    /// The port with this index.
    #[inline]
    pub fn port(&mut self, index: usize) -> &mut Port {
        &mut self.ports[index]
    }

    /// All ports, to write to several at once.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use arrow_schema::{DataType, Field, Schema};
    /// let schema = || Arc::new(Schema::new(vec![Field::new("vid", DataType::UInt32, false)]));
    /// let mut output = tidemill_core::Output::new(&[schema(), schema()]).unwrap();
    /// let [small, large] = output.ports() else { unreachable!() };
    /// let (mut small, mut large) = (small.writer::<(u32,)>(), large.writer::<(u32,)>());
    /// for (position, vid) in [7, 700, 8].into_iter().enumerate() {
    ///     if vid < 100 { small.push(position as u32, (vid,)) } else { large.push(position as u32, (vid,)) }
    /// }
    /// assert_eq!(output.finish(0).unwrap().len(), 2);
    /// ```
    pub fn ports(&mut self) -> &mut [Port] {
        &mut self.ports
    }

    /// The position of rows that the end of the cycle causes: the number of events in the cycle, and so the
    /// last position that rows may have.
    pub fn end_position(&self) -> u32 {
        self.end_position
    }

    /// All that follows is written in a cycle of so many events.
    pub fn begin_cycle(&mut self, events: u32) {
        self.end_position = events;
    }

    /// All that follows is written by this partition. Partitions must come in ascending order.
    pub fn begin_partition(&mut self, partition: u32) {
        for port in &mut self.ports {
            let start = port.positions.len() as u32;
            match port.origins.last_mut() {
                Some(last) if last.1 == start => last.0 = partition,
                _ => port.origins.push((partition, start)),
            }
        }
    }

    /// Takes the rows of a port out as a batch; `None` if there are none.
    pub fn finish(&mut self, port: usize) -> Option<Batch> {
        self.ports[port].finish()
    }
}

/// Appends rows of one type to a port.
pub struct RowWriter<'a, R: Row> {
    columns: R::Columns<'a>,
    positions: &'a mut Vec<u32>,
}

impl<R: Row> RowWriter<'_, R> {
    /// Appends a row that the event at `position` caused.
    #[inline]
    pub fn push(&mut self, position: u32, row: R) {
        row.push(&mut self.columns);
        self.positions.push(position);
    }
}

impl Port {
    fn new(schema: &SchemaRef) -> Result<Self, Cause> {
        let columns = schema
            .fields()
            .iter()
            .map(|field| {
                Column::new(field.data_type()).ok_or_else(|| {
                    Cause::User(format!(
                        "output column '{}' has type {}, which operators cannot write row by row",
                        field.name(),
                        field.data_type()
                    ))
                })
            })
            .collect::<Result<_, _>>()?;
        Ok(Port { schema: Arc::clone(schema), columns, positions: Vec::new(), origins: Vec::new() })
    }

    /// Appends a row that the event at `position` caused.
    #[inline]
    pub fn push<R: Row>(&mut self, position: u32, row: R) {
        self.writer().push(position, row);
    }

    /// Writes many rows of one type: the columns' types are checked once.
    #[inline]
    pub fn writer<R: Row>(&mut self) -> RowWriter<'_, R> {
        RowWriter { columns: R::columns(&mut self.columns), positions: &mut self.positions }
    }

    /// The number of rows written so far.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Whether nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    fn finish(&mut self) -> Option<Batch> {
        if self.positions.is_empty() {
            self.origins.clear();
            return None;
        }
        let columns = self.columns.iter_mut().map(Column::finish).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.positions.len()));
        let rows = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .expect("the columns were built from this schema, one value per row each");
        let positions = column::take(&mut self.positions);
        let origins = expand_origins(&self.origins, positions.len());
        self.origins.clear();
        Some(Batch { rows, positions: positions.into(), origins: origins.into() })
    }
}

fn expand_origins(starts: &[(u32, u32)], rows: usize) -> Vec<u32> {
    let mut origins = Vec::with_capacity(rows);
    for (index, (partition, _)) in starts.iter().enumerate() {
        let end = starts.get(index + 1).map_or(rows, |next| next.1 as usize);
        origins.resize(end, *partition);
    }
    origins
}
