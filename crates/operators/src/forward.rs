//! `UNION ALL`: merges the rows of several inputs with the same schema into one stream.

use arrow_schema::SchemaRef;
use tidemill_core::error::Cause;
use tidemill_core::{Operator, Output, Rows, SnapshotReader, SnapshotWriter, StateRows};

const VERSION: u8 = 1;

/// The rows to merge.
#[derive(Clone, Debug)]
pub struct ForwardSpec {
    /// The columns of every input, and of the output.
    pub schema: SchemaRef,
}

/// The columns of the output.
pub fn output_schema(spec: &ForwardSpec) -> SchemaRef {
    spec.schema.clone()
}

/// Emits every row of every input at its position.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_core::arrow::array::{ArrayRef, Int64Array, RecordBatch};
/// use tidemill_core::{Batch, Operator, Output};
/// use tidemill_operators::forward::{Forward, ForwardSpec};
///
/// let column = Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef;
/// let batch = Batch::from_source(RecordBatch::try_from_iter([("v", column)]).unwrap(), vec![0, 1].into());
/// let mut union = Forward::new(ForwardSpec { schema: batch.rows.schema() });
/// let mut output = Output::new(&[batch.rows.schema()]);
/// union.rows(0, batch.as_rows(), &mut output).unwrap();
/// union.rows(1, batch.as_rows(), &mut output).unwrap();
/// assert_eq!(output.finish(0).unwrap().len(), 4);
/// ```
#[derive(Debug)]
pub struct Forward {
    schema: SchemaRef,
}

impl Forward {
    /// An instance.
    pub fn new(spec: ForwardSpec) -> Self {
        Forward { schema: spec.schema }
    }
}

impl Operator for Forward {
    fn rows(&mut self, _input: usize, rows: Rows<'_>, output: &mut Output) -> Result<(), Cause> {
        // The inputs may name their columns differently.
        let named = crate::stored_rows::with_schema(&self.schema, rows.to_batch())?;
        output.port(0).push_batch(named, rows.positions())
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u8(VERSION);
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        reader.version(VERSION)
    }

    /// Nothing is kept from one cycle to the next.
    fn state_rows(&self) -> Result<Option<Vec<StateRows>>, Cause> {
        Ok(Some(Vec::new()))
    }
}
