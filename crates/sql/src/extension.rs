//! Extensions by users: generators of rows and operators, by name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use tidemill_engine::{Cause, Operator};

use crate::arguments::Arguments;
use crate::generator::Generator;

/// An operator of the user's, callable in FROM: `SELECT * FROM name(TABLE(input), argument => value)`.
pub trait TableOperator: Send + Sync {
    /// What a call with these inputs and arguments runs.
    ///
    /// # Errors
    /// If the inputs' columns or the arguments do not fit. The error says which, and what would fit.
    fn bind(&self, inputs: &[SchemaRef], arguments: &Arguments) -> Result<BoundOperator, Cause>;
}

/// An operator with known inputs and arguments.
pub struct BoundOperator {
    /// The columns of its rows.
    pub output: SchemaRef,
    /// For each input, the columns whose values determine the partition of a row: rows with equal values go to the same
    /// partition. Empty: all rows go to one partition.
    pub keys: Vec<Vec<String>>,
    /// Columns that each output row takes over from the input rows that caused it, with the same name and type in every
    /// input, such that rows with other values have no influence on it. Conditions of a query on only these columns
    /// then filter rows before the operator sees them, and before they are split. If in doubt, leave it empty.
    pub carried: Vec<String>,
    /// Makes the instance of a partition. Its inputs have the columns of the call's inputs.
    pub factory: Arc<dyn Fn(u32) -> Box<dyn Operator> + Send + Sync>,
}

impl fmt::Debug for BoundOperator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("BoundOperator").field("output", &self.output).finish_non_exhaustive()
    }
}

/// An operator with known inputs and arguments.
pub(crate) struct BoundCall {
    /// The columns of its rows.
    pub output: SchemaRef,
    /// See [`BoundOperator::keys`].
    pub keys: Vec<Vec<String>>,
    /// See [`BoundOperator::carried`].
    pub carried: Vec<String>,
    pub make: Make,
}

/// Makes the instance of a partition.
pub(crate) type Make = Arc<dyn Fn(u32, &CallContext) -> Box<dyn Operator> + Send + Sync>;

/// Reports a row that is left out: the reason, and rows of which it is the first.
pub(crate) type LeaveOut = Arc<dyn Fn(&str, &RecordBatch) + Send + Sync>;

/// What an instance has of the query.
#[derive(Clone)]
pub(crate) struct CallContext {
    /// Reports a row that it leaves out, with the reason.
    pub leave_out: LeaveOut,
    /// How many keys a partition may have.
    pub keys_max: usize,
}

impl From<BoundOperator> for BoundCall {
    fn from(bound: BoundOperator) -> BoundCall {
        let BoundOperator { output, keys, carried, factory } = bound;
        BoundCall { output, keys, carried, make: Arc::new(move |partition, _| factory(partition)) }
    }
}

impl fmt::Debug for BoundCall {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("BoundCall").field("output", &self.output).finish_non_exhaustive()
    }
}

/// Everything that was registered by name and can be used in FROM.
#[derive(Clone, Default)]
pub(crate) struct Registry {
    pub generators: BTreeMap<String, Arc<Generator>>,
    pub operators: BTreeMap<String, Arc<dyn TableOperator>>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let generators: Vec<_> = self.generators.keys().collect();
        let operators: Vec<_> = self.operators.keys().collect();
        formatter
            .debug_struct("Registry")
            .field("generators", &generators)
            .field("operators", &operators)
            .finish()
    }
}
