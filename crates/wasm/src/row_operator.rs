//! An operator of a module: rows in, rows out, with a state for each key.

use arrow_array::ArrayRef;
use arrow_schema::DataType;

use crate::grouped::Emitted;
use crate::signature::{check_grouped, check_passed};
use crate::steps::{Pieces, Step, Steps};
use crate::{Failure, Limits, Module, ModuleError, States};

/// An operator: what a module does with rows, given the states of their keys.
///
/// The module exports a function that takes rows, changes the states of their keys, and gives rows. See
/// [`batch_layout`](crate::batch_layout). A key whose state it sets to NULL is forgotten.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Int64Array};
/// use arrow_schema::DataType::Int64;
/// use tidemill_wasm::{Limits, Module, RowOperator};
///
/// # let text = include_str!("../tests/integration/rises.wat");
/// // `text` exports `rises`: of each key, the values that are larger than the one before.
/// let module = Module::new(text.as_bytes())?;
/// let types = [Int64, Int64];
/// let rises = RowOperator::new(&module, "rises", &types, &types, &types, Limits::default())?;
/// let mut states = rises.states();
/// states.resize(2);
/// let column = |values: [i64; 4]| Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
/// let given = rises.call(&mut states, &[0, 1, 0, 1], &[column([7, 8, 7, 8]), column([1, 5, 2, 4])])?;
/// // Only the third row is larger than the one before of its key.
/// assert_eq!(given.pieces[0].from, [2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RowOperator {
    steps: Steps,
    symbol: String,
    arguments: Vec<DataType>,
}

/// What an operator gives for rows.
#[derive(Debug, Default)]
pub struct RowsGiven {
    /// Rows, in the order of the rows that they come from. `from` counts from the first row of the call.
    pub pieces: Vec<Emitted>,
    /// The rows for which the code has failed, and why. They have changed nothing.
    pub failed: Vec<(u32, String)>,
}

impl RowOperator {
    /// The exported function for rows, states and results of these types.
    ///
    /// # Errors
    /// If the module exports no such function, the function has another type, or no instance can be made.
    pub fn new(
        module: &Module,
        symbol: &str,
        arguments: &[DataType],
        states: &[DataType],
        output: &[DataType],
        limits: Limits,
    ) -> Result<RowOperator, ModuleError> {
        check_passed(arguments.iter().chain(states).chain(output))?;
        check_grouped(module, symbol, 6)?;
        let steps = Steps::new(module, states, Some(output.to_vec()), limits);
        steps.instances.try_start()?;
        Ok(RowOperator { steps, symbol: symbol.to_owned(), arguments: arguments.to_vec() })
    }

    /// The types of its arguments.
    pub fn arguments(&self) -> &[DataType] {
        &self.arguments
    }

    /// No keys.
    pub fn states(&self) -> States {
        States::new(&self.steps.states)
    }

    /// Takes rows: row `i` has the key `keys[i]`.
    ///
    /// # Errors
    /// If a limit is reached, or the code does not keep what it must.
    pub fn call(
        &self,
        states: &mut States,
        keys: &[u32],
        arguments: &[ArrayRef],
    ) -> Result<RowsGiven, Failure> {
        let types = arguments.iter().map(|column| column.data_type());
        if !types.eq(&self.arguments) {
            return Err(Failure::Stop("it was called with columns that it does not take".to_owned()));
        }
        let mut given = RowsGiven::default();
        self.steps.run(states, Step { symbol: &self.symbol, arguments, groups: keys }, &mut given)?;
        Ok(given)
    }
}

impl Pieces for RowsGiven {
    fn emit(&mut self, first: u32, mut emitted: Emitted) -> Result<(), Failure> {
        if !emitted.from.is_empty() {
            emitted.from.iter_mut().for_each(|row| *row += first);
            self.pieces.push(emitted);
        }
        Ok(())
    }

    fn trap(&mut self, _states: &mut States, row: u32, _group: u32, reason: String) -> Result<(), Failure> {
        self.failed.push((row, reason));
        Ok(())
    }
}

impl std::fmt::Debug for RowOperator {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("RowOperator").field("symbol", &self.symbol).finish_non_exhaustive()
    }
}
