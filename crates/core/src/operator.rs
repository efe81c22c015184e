//! The operator trait: what computes.

use crate::batch::Rows;
use crate::cut::Cut;
use crate::error::Cause;
use crate::output::Output;
use crate::snapshot::{SnapshotReader, SnapshotWriter};
use crate::state_rows::StateRows;

/// One logical partition of an operator.
///
/// In every cycle an instance receives its rows, input by input in the plan's order, and each input's rows in the order
/// of (position, origin). Then it is told the end of the cycle. An instance lives in one worker's partition table, is
/// never shared, and may be moved between cycles. It must not read a clock, a random source or a hash seed, and must
/// not block: its output is a function of its rows and cuts.
///
/// ```
/// use tidemill_core::arrow::array::types::UInt32Type;
/// use tidemill_core::error::Cause;
/// use tidemill_core::{Operator, Output, Rows, SnapshotReader, SnapshotWriter};
///
/// /// Numbers the rows of its partition.
/// struct RowNumber {
///     rows_seen: u64,
/// }
///
/// impl Operator for RowNumber {
///     fn rows(&mut self, _input: usize, rows: Rows<'_>, output: &mut Output) -> Result<(), Cause> {
///         for (value, position) in rows.column::<UInt32Type>(0).iter().zip(rows.positions()) {
///             self.rows_seen += 1;
///             output.port(0).push(*position, (*value, self.rows_seen));
///         }
///         Ok(())
///     }
///     fn snapshot(&self, writer: &mut SnapshotWriter) {
///         writer.u64(self.rows_seen);
///     }
///     fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
///         self.rows_seen = reader.u64()?;
///         Ok(())
///     }
/// }
/// ```
pub trait Operator: Send {
    /// Takes rows of one input. A cycle's rows may come in one call or in several, divided anywhere, so the operator
    /// must not depend on how they are divided.
    ///
    /// # Errors
    /// An error stops the query. The report names operator, partition, cycle and cause.
    fn rows(&mut self, input: usize, rows: Rows<'_>, output: &mut Output) -> Result<(), Cause>;

    /// The cycle's rows are complete. Called for partitions that had rows, for those whose
    /// [`next_timer`](Operator::next_timer) the watermark has reached, and for those whose
    /// [`next_clock_timer`](Operator::next_clock_timer) the closing time of the cycle has reached.
    ///
    /// # Errors
    /// As for [`rows`](Operator::rows).
    fn end_of_cycle(&mut self, _cut: &Cut, _output: &mut Output) -> Result<(), Cause> {
        Ok(())
    }

    /// The event time from which on [`end_of_cycle`](Operator::end_of_cycle) must be called even in cycles without rows
    /// for this partition. The engine asks after each call.
    fn next_timer(&self) -> Option<i64> {
        None
    }

    /// The closing time of a cycle, on the clock of the query, from which on [`end_of_cycle`](Operator::end_of_cycle) must be
    /// called even without rows for this partition. At this time the engine closes a cycle if nothing else does. It asks after
    /// each call. After a cycle, the next one must be later than the cycle's closing time. The plan must say that the operator
    /// has such timers.
    fn next_clock_timer(&self) -> Option<u64> {
        None
    }

    /// A hint that these rows come soon. An operator with large state prefetches the memory that they need (see
    /// [`prefetch`](crate::prefetch)). It must not change anything.
    fn prefetch(&self, _input: usize, _rows: Rows<'_>) {}

    /// About how many bytes of memory the state takes; 0 if that is not known. The engine asks now and then, so that a
    /// query ends with a reason before its state takes all memory. It must be cheap: ask containers for their capacity, and
    /// walk through nothing that grows with the rows.
    fn state_bytes(&self) -> usize {
        0
    }

    /// Writes the state at the end of a cycle, in a format that starts with a version.
    fn snapshot(&self, writer: &mut SnapshotWriter);

    /// Reads what [`snapshot`](Operator::snapshot) wrote into a fresh instance.
    ///
    /// # Errors
    /// If the bytes have an unknown version or are damaged.
    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause>;

    /// The state as rows that people can read: whoever looks at the past of a query queries them. Each kind of rows has
    /// the same columns in all partitions, and is there even if it has no rows. `None`, the default: the operator does not
    /// show its state. Only an instance that was just restored is asked.
    ///
    /// # Errors
    /// If the rows cannot be made.
    ///
    /// ```
    /// use tidemill_core::arrow::array::{Int64Array, RecordBatch};
    /// use tidemill_core::{Cause, Operator, Output, Rows, SnapshotReader, SnapshotWriter, StateRows};
    ///
    /// struct Count(i64);
    ///
    /// impl Operator for Count {
    /// #   fn rows(&mut self, _: usize, _: Rows<'_>, _: &mut Output) -> Result<(), Cause> { Ok(()) }
    /// #   fn snapshot(&self, writer: &mut SnapshotWriter) { writer.i64(self.0) }
    /// #   fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
    /// #       self.0 = reader.i64()?;
    /// #       Ok(())
    /// #   }
    ///     // rows, snapshot and restore as usual
    ///     fn state_rows(&self) -> Result<Option<Vec<StateRows>>, Cause> {
    ///         let count = std::sync::Arc::new(Int64Array::from(vec![self.0])) as _;
    ///         let rows = RecordBatch::try_from_iter([("count", count)])
    ///             .map_err(|error| Cause::bug(error.to_string()))?;
    ///         Ok(Some(vec![StateRows { kind: "count", rows }]))
    ///     }
    /// }
    /// assert_eq!(Count(7).state_rows().unwrap().unwrap()[0].rows.num_columns(), 1);
    /// ```
    fn state_rows(&self) -> Result<Option<Vec<StateRows>>, Cause> {
        Ok(None)
    }
}
