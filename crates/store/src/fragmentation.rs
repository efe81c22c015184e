//! How the rows of a store are divided among its fragments.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{Field, Schema};
use arrow_select::concat::concat;
use tidemill_core::{Cause, Cut, Expression};
use tidemill_split::route_by_hash;

/// The most fragments of one store: each has a thread.
pub(crate) const FRAGMENTS_MAX: u32 = 256;

/// Into how many fragments the rows of a store are divided, and by what. The fragment of a row depends on the row alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragmentation {
    /// How many fragments there are.
    pub count: u32,
    /// What decides in which of them a row is.
    pub by: FragmentBy,
}

/// What decides in which fragment a row is: rows with the same value are in the same one.
#[derive(Clone, Debug)]
pub enum FragmentBy {
    /// The store's key.
    Key,
    /// An expression over the store's columns. For a table it may read columns of the key only. A row for which it cannot
    /// be computed is where those without a value are.
    Expression {
        /// The expression as it was written.
        text: String,
        /// The expression itself.
        expression: Arc<dyn Expression>,
    },
}

impl FragmentBy {
    /// What it is called in a message.
    pub(crate) fn text(&self) -> &str {
        match self {
            FragmentBy::Key => "the key",
            FragmentBy::Expression { text, .. } => text,
        }
    }
}

/// Two are equal if they were written the same.
impl PartialEq for FragmentBy {
    fn eq(&self, other: &FragmentBy) -> bool {
        match (self, other) {
            (FragmentBy::Key, FragmentBy::Key) => true,
            (FragmentBy::Expression { text, .. }, FragmentBy::Expression { text: other, .. }) => {
                text == other
            }
            _ => false,
        }
    }
}

impl Eq for FragmentBy {}

impl Fragmentation {
    pub(crate) fn is_by_key(&self) -> bool {
        matches!(self.by, FragmentBy::Key)
    }

    /// The fragment of the rows with this value of the expression; for [`FragmentBy::Key`] with these values of the key's
    /// columns. Each column has one value.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tidemill_core::arrow::array::{ArrayRef, Int64Array};
    /// use tidemill_store::{FragmentBy, Fragmentation};
    ///
    /// let fragments = Fragmentation { count: 4, by: FragmentBy::Key };
    /// let seven = || vec![Arc::new(Int64Array::from(vec![7])) as ArrayRef];
    /// assert!(fragments.fragment_of(&seven()).is_some_and(|fragment| fragment < 4));
    /// assert_eq!(fragments.fragment_of(&seven()), fragments.fragment_of(&seven()));
    /// ```
    pub fn fragment_of(&self, values: &[ArrayRef]) -> Option<usize> {
        let destinations = self.destinations(values.to_vec(), 1).ok()?;
        destinations.first().map(|fragment| *fragment as usize)
    }

    /// The fragment of each of these rows.
    pub(crate) fn fragments_of(&self, rows: &RecordBatch, key: Option<&[usize]>) -> Result<Vec<u32>, Cause> {
        let values = match &self.by {
            FragmentBy::Key => {
                key.unwrap_or_default().iter().map(|column| rows.column(*column).clone()).collect()
            }
            FragmentBy::Expression { expression, .. } => vec![values_or_null(expression.as_ref(), rows)?],
        };
        self.destinations(values, rows.num_rows())
    }

    fn destinations(&self, values: Vec<ArrayRef>, rows: usize) -> Result<Vec<u32>, Cause> {
        let field =
            |(at, value): (usize, &ArrayRef)| Field::new(format!("c{at}"), value.data_type().clone(), true);
        let schema = Schema::new(values.iter().enumerate().map(field).collect::<Vec<_>>());
        let columns = (0..values.len()).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let values = RecordBatch::try_new_with_options(schema.into(), values, &options).map_err(|error| {
            Cause::bug(format!("what divides rows among fragments has another number of values: {error}"))
                .with_source(error)
        })?;
        let mut destinations = Vec::with_capacity(rows);
        route_by_hash(columns, self.count)(&values, &mut destinations);
        Ok(destinations)
    }
}

/// The values of an expression, NULL where it cannot be computed. It decides where a row is, and not whether it is there.
fn values_or_null(expression: &dyn Expression, rows: &RecordBatch) -> Result<ArrayRef, Cause> {
    let of_rows = |rows: &RecordBatch| expression.evaluate(rows, &Cut::first());
    if let Ok(values) = of_rows(rows) {
        return Ok(values);
    }
    let of_row =
        |row| of_rows(&rows.slice(row, 1)).unwrap_or_else(|_| new_null_array(&expression.data_type(), 1));
    let values: Vec<ArrayRef> = (0..rows.num_rows()).map(of_row).collect();
    let values: Vec<&dyn Array> = values.iter().map(|value| value.as_ref()).collect();
    concat(&values).map_err(|error| Cause::bug(error.to_string()).with_source(error))
}
