//! Transforms: what happens to the rows of a stream before they are split, row by row and without state.

use arrow_array::RecordBatch;

use crate::cut::Cut;
use crate::error::Cause;

/// The rows that a transform made.
#[derive(Clone, Debug)]
pub struct Transformed {
    /// The rows.
    pub rows: RecordBatch,
    /// For each row, the input row that it comes from, ascending; `None` if there is one row for each input row.
    pub causes: Option<Vec<u32>>,
}

/// Filters, projects, looks up, or combines rows. It is called on whichever worker has the rows, with a cycle's rows
/// divided anywhere, and keeps nothing from one call to the next. What it makes of a row depends only on the row and
/// the cut. A transform that combines several rows into one is permitted only if its reader's results do not depend on
/// which rows were combined.
///
/// ```
/// use tidemill_core::arrow::array::RecordBatch;
/// use tidemill_core::error::Cause;
/// use tidemill_core::{Cut, Transform, Transformed};
///
/// /// Keeps every other row of each batch: wrong, for what it keeps depends on how rows are divided. Right:
/// struct Unchanged;
///
/// impl Transform for Unchanged {
///     fn apply(&mut self, rows: &RecordBatch, _cut: &Cut) -> Result<Transformed, Cause> {
///         Ok(Transformed { rows: rows.clone(), causes: None })
///     }
/// }
/// ```
pub trait Transform: Send {
    /// Transforms these rows.
    ///
    /// # Errors
    /// An error stops the query. The report names the transform, the cycle and the cause.
    fn apply(&mut self, rows: &RecordBatch, cut: &Cut) -> Result<Transformed, Cause>;

    /// As [`apply`](Transform::apply), for a transform that makes many rows of one: it passes them on a piece at a time, in the order of
    /// the input, so that they need not be in memory together. Each piece names its input rows by their numbers in `rows`.
    ///
    /// ```
    /// use tidemill_core::arrow::array::{RecordBatch, UInt32Array};
    /// use tidemill_core::error::Cause;
    /// use tidemill_core::{Cut, Transform, Transformed};
    ///
    /// /// Repeats each row.
    /// struct Repeated(usize);
    ///
    /// impl Transform for Repeated {
    ///     fn apply(&mut self, rows: &RecordBatch, _cut: &Cut) -> Result<Transformed, Cause> {
    ///         let causes: Vec<u32> =
    ///             (0..rows.num_rows() as u32).flat_map(|row| std::iter::repeat_n(row, self.0)).collect();
    ///         let rows = arrow_select::take::take_record_batch(rows, &UInt32Array::from(causes.clone()));
    ///         Ok(Transformed { rows: rows.map_err(|error| Cause::bug(error.to_string()))?, causes: Some(causes) })
    ///     }
    ///
    ///     fn apply_in_pieces(
    ///         &mut self,
    ///         rows: &RecordBatch,
    ///         cut: &Cut,
    ///         pass_on: &mut dyn FnMut(Transformed) -> Result<(), Cause>,
    ///     ) -> Result<(), Cause> {
    ///         for row in 0..rows.num_rows() {
    ///             let mut piece = self.apply(&rows.slice(row, 1), cut)?;
    ///             piece.causes.iter_mut().flatten().for_each(|cause| *cause = row as u32);
    ///             pass_on(piece)?;
    ///         }
    ///         Ok(())
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    /// As for [`apply`](Transform::apply). It ends at the first error of `pass_on`, and returns that.
    fn apply_in_pieces(
        &mut self,
        rows: &RecordBatch,
        cut: &Cut,
        pass_on: &mut dyn FnMut(Transformed) -> Result<(), Cause>,
    ) -> Result<(), Cause> {
        pass_on(self.apply(rows, cut)?)
    }

    /// Whether it combines several rows into one. Its rows then come in the total order: the first row of a group is the
    /// same, whichever partitions the worker holds.
    fn combines_rows(&self) -> bool {
        false
    }
}
