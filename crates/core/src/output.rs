//! The output of operators: rows on an operator's ports, collected over all its partitions on a worker.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;

use crate::batch::Batch;
use crate::column::{self, Column, Row};
use crate::concatenate;
use crate::error::Cause;
use crate::memory::{Bytes, bytes_of_rows};

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
    /// Rows written one by one, after those in batches; `None` if the type of a column cannot be built this way.
    columns: Option<Vec<Column>>,
    /// Rows written in batches.
    batches: Vec<RecordBatch>,
    rows_in_batches: usize,
    positions: Vec<u32>,
    /// (partition, first row) for each partition that has written to the port.
    origins: Vec<(u32, u32)>,
    /// At least the bytes of the batches, and the most that they may have.
    bytes: u64,
    bytes_max: u64,
    /// The limit of which that is left.
    limit: u64,
}

impl Output {
    /// Ports with these schemas.
    pub fn new(schemas: &[SchemaRef]) -> Self {
        Output { ports: schemas.iter().map(Port::new).collect(), end_position: 0 }
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
    /// let mut output = tidemill_core::Output::new(&[schema(), schema()]);
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

    /// The position of rows that the end of the cycle causes. It is the number of events in the cycle, and so the
    /// largest position that rows may have.
    pub fn end_position(&self) -> u32 {
        self.end_position
    }

    /// Begins a cycle with this number of events: all later rows belong to it.
    pub fn begin_cycle(&mut self, events: u32) {
        self.end_position = events;
    }

    /// The most bytes that a port takes in batches from now on, until its rows are taken: what is left of a limit.
    pub fn limit_bytes(&mut self, left: u64, limit: u64) {
        self.ports.iter_mut().for_each(|port| (port.bytes_max, port.limit) = (left, limit));
    }

    /// Begins a partition: it writes all later rows. Partitions must come in ascending order.
    pub fn begin_partition(&mut self, partition: u32) {
        for port in &mut self.ports {
            let start = port.positions.len() as u32;
            match port.origins.last_mut() {
                Some(last) if last.1 == start => last.0 = partition,
                _ => port.origins.push((partition, start)),
            }
        }
    }

    /// Takes the rows of a port as a batch; `None` if there are none.
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
    fn new(schema: &SchemaRef) -> Self {
        let columns = schema.fields().iter().map(|field| Column::new(field.data_type())).collect();
        Port {
            schema: Arc::clone(schema),
            columns,
            batches: Vec::new(),
            rows_in_batches: 0,
            positions: Vec::new(),
            origins: Vec::new(),
            bytes: 0,
            bytes_max: u64::MAX,
            limit: u64::MAX,
        }
    }

    /// The schema of its rows.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Appends whole rows of any types, with the position of the event that caused each.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tidemill_core::arrow::array::{RecordBatch, StringArray};
    /// let names = Arc::new(StringArray::from(vec![Some("a"), None])) as _;
    /// let rows = RecordBatch::try_from_iter([("name", names)]).unwrap();
    /// let mut output = tidemill_core::Output::new(&[rows.schema()]);
    /// output.port(0).push_batch(rows, &[0, 3]).unwrap();
    /// assert_eq!(&output.finish(0).unwrap().positions[..], &[0, 3]);
    /// ```
    ///
    /// # Errors
    /// If the number or types of the columns differ from the port's, if there are nulls where the port has none, or if
    /// there is not one position per row. All of these are bugs. [`Cause::resource`] if the rows take more memory than is
    /// left.
    pub fn push_batch(&mut self, rows: RecordBatch, positions: &[u32]) -> Result<(), Cause> {
        if rows.num_rows() != positions.len() {
            let (rows, positions) = (rows.num_rows(), positions.len());
            return Err(Cause::bug(format!("an operator wrote {rows} rows with {positions} positions")));
        }
        let rows = if Arc::ptr_eq(&self.schema, rows.schema_ref()) { rows } else { self.as_declared(rows)? };
        if rows.num_rows() == 0 {
            return Ok(());
        }
        self.move_columns_to_batches();
        self.rows_in_batches += rows.num_rows();
        self.bytes += rows.get_array_memory_size() as u64;
        self.batches.push(rows);
        self.positions.extend_from_slice(positions);
        if self.bytes > self.bytes_max { self.check_bytes() } else { Ok(()) }
    }

    /// Counts more exactly: rows of a larger batch were counted with all of it.
    #[cold]
    fn check_bytes(&mut self) -> Result<(), Cause> {
        self.bytes = self.batches.iter().map(|rows| bytes_of_rows(rows) as u64).sum();
        if self.bytes <= self.bytes_max {
            return Ok(());
        }
        let (bytes, left, limit) = (Bytes(self.bytes), Bytes(self.bytes_max), Bytes(self.limit));
        Err(Cause::resource(format!(
            "the {} rows that it writes in one cycle take {bytes}, but of the {limit} that may be held only \
             {left} are left; raise memory_limit or --memory, use smaller cycles (cycle_events), or let \
             the query write fewer rows",
            self.positions.len()
        )))
    }

    /// The same rows with the port's schema, on which all readers rely.
    fn as_declared(&self, rows: RecordBatch) -> Result<RecordBatch, Cause> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let (_, columns, _) = rows.into_parts();
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options).map_err(|error| {
            Cause::bug(format!("an operator wrote rows that do not match its port: {error}"))
                .with_source(error)
        })
    }

    /// Appends a row that the event at `position` caused.
    #[inline]
    pub fn push<R: Row>(&mut self, position: u32, row: R) {
        self.writer().push(position, row);
    }

    /// Writes many rows of one type, and checks the columns' types only once.
    ///
    /// # Panics
    /// If the port has columns that are not primitive. Write those with [`push_batch`](Port::push_batch).
    #[inline]
    pub fn writer<R: Row>(&mut self) -> RowWriter<'_, R> {
        let columns = self.columns.as_mut().expect("rows with strings or the like are written in batches");
        RowWriter { columns: R::columns(columns), positions: &mut self.positions }
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
        self.move_columns_to_batches();
        let rows = match self.batches.len() {
            1 => self.batches.pop().expect("there is one"),
            _ => concatenate::batches(&self.schema, &self.batches)
                .expect("the rows of a cycle fit one batch of its schema"),
        };
        self.batches.clear();
        self.rows_in_batches = 0;
        self.bytes = 0;
        let positions = column::take(&mut self.positions);
        let origins = expand_origins(&self.origins, positions.len());
        self.origins.clear();
        Some(Batch { rows, positions: positions.into(), origins: origins.into() })
    }
}

impl Port {
    fn move_columns_to_batches(&mut self) {
        let rows = self.positions.len() - self.rows_in_batches;
        let Some(columns) = self.columns.as_mut().filter(|_| rows > 0) else { return };
        let columns = columns.iter_mut().map(Column::finish).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let rows = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .expect("the columns were built from this schema, one value per row each");
        self.rows_in_batches += rows.num_rows();
        self.batches.push(rows);
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
