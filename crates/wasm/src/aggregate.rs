//! An aggregate function of a module.

use std::collections::HashSet;

use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;

use crate::grouped::{Emitted, taken};
use crate::signature::{check_grouped, check_passed};
use crate::steps::{Pieces, Step, Steps};
use crate::{Failure, Function, Limits, Module, ModuleError, States};

/// An aggregate function: what a module does with the rows of groups, and what it gives for a group.
///
/// A module exports three functions, whose names begin with that of the aggregate. See [`batch_layout`](crate::batch_layout).
///
/// - `name_update` takes rows and changes the states of their groups.
/// - `name_merge` takes states instead of rows: those of groups whose rows came elsewhere.
/// - `name_result` takes states and gives the results.
///
/// States are kept outside of the module, as columns. So a call depends on its arguments only, as that of a [`Function`].
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{cast::AsArray, types::Float64Type, ArrayRef, Float64Array};
/// use arrow_schema::DataType::{Float64, Int64};
/// use tidemill_wasm::{Aggregate, Limits, Module};
///
/// # let text = include_str!("../tests/integration/mean.wat");
/// // `text` exports mean_update, mean_merge and mean_result.
/// let module = Module::new(text.as_bytes())?;
/// let mean = Aggregate::new(&module, "mean", &[Float64], &[Int64, Float64], &Float64, Limits::default())?;
/// let mut states = mean.states();
/// states.resize(2);
/// let values: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 5.0, 2.0]));
/// mean.update(&mut states, &[0, 1, 0], &[values])?;
/// assert_eq!(mean.result(&states, &[0, 1])?.as_primitive::<Float64Type>().values(), &[1.5, 5.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Aggregate {
    steps: Steps,
    update: String,
    merge: String,
    arguments: Vec<DataType>,
    result: Function,
}

impl Aggregate {
    /// The aggregate of a name, for arguments, states and results of these types.
    ///
    /// # Errors
    /// If the module does not export the three functions, one of them has another type, or no instance can be made.
    pub fn new(
        module: &Module,
        name: &str,
        arguments: &[DataType],
        states: &[DataType],
        result: &DataType,
        limits: Limits,
    ) -> Result<Aggregate, ModuleError> {
        let [update, merge, result_name] = ["update", "merge", "result"].map(|part| format!("{name}_{part}"));
        check_passed(arguments.iter().chain(states))?;
        check_grouped(module, &update, 5)?;
        check_grouped(module, &merge, 5)?;
        let result = Function::new(module, &result_name, states, result, limits)?;
        let steps = Steps::new(module, states, None, limits);
        Ok(Aggregate { steps, update, merge, arguments: arguments.to_vec(), result })
    }

    /// The types of its arguments.
    pub fn arguments(&self) -> &[DataType] {
        &self.arguments
    }

    /// The type of its results.
    pub fn result_type(&self) -> &DataType {
        self.result.result()
    }

    /// The types of the columns of a partial result: those of the states, and the reason why the code failed for a group.
    pub fn partial_types(&self) -> Vec<DataType> {
        self.steps.states.iter().cloned().chain([DataType::Utf8]).collect()
    }

    /// No groups.
    pub fn states(&self) -> States {
        States::new(&self.steps.states)
    }

    /// Adds rows: row `i` belongs to `groups[i]`. A group for whose row the code fails has no result.
    ///
    /// # Errors
    /// If a limit is reached, or the code does not keep what it must.
    pub fn update(&self, states: &mut States, groups: &[u32], arguments: &[ArrayRef]) -> Result<(), Failure> {
        let types = arguments.iter().map(|column| column.data_type());
        if !types.eq(&self.arguments) {
            return Err(Failure::Stop("it was called with columns that it does not take".to_owned()));
        }
        self.steps.run(states, Step { symbol: &self.update, arguments, groups }, &mut FailedGroups)
    }

    /// Adds partial results: row `i` belongs to `groups[i]`. The code is not called for the state of a group without rows.
    ///
    /// # Errors
    /// If a limit is reached, or the code does not keep what it must.
    pub fn merge(&self, states: &mut States, groups: &[u32], partials: &[ArrayRef]) -> Result<(), Failure> {
        let (columns, reasons) = states.split(partials)?;
        let has_rows = |row: &u32| columns.iter().any(|column| column.is_valid(*row as usize));
        let rows: Vec<u32> = (0..groups.len() as u32).filter(has_rows).collect();
        // The first state of a group without rows is taken over, and the others are added to it.
        let mut begun = HashSet::new();
        let begins = |row: &u32| {
            let group = groups[*row as usize];
            states.is_new(group) && begun.insert(group)
        };
        let (first, further): (Vec<u32>, Vec<u32>) = rows.into_iter().partition(begins);
        states.set(&of_rows(groups, &first), &taken(columns, &first)?)?;
        let arguments = taken(columns, &further)?;
        let step = Step { symbol: &self.merge, arguments: &arguments, groups: &of_rows(groups, &further) };
        self.steps.run(states, step, &mut FailedGroups)?;
        for (row, group) in groups.iter().enumerate() {
            if reasons.is_valid(row) && states.failure(*group).is_none() {
                states.fail(*group, reasons.value(row));
            }
        }
        Ok(())
    }

    /// The results of groups.
    ///
    /// # Errors
    /// If the code has failed for one of them.
    pub fn result(&self, states: &States, groups: &[u32]) -> Result<ArrayRef, Failure> {
        if let Some(reason) = groups.iter().find_map(|group| states.failure(*group)) {
            return Err(Failure::Row(reason.to_owned()));
        }
        self.result.call(&states.get(groups)?, groups.len())
    }
}

impl std::fmt::Debug for Aggregate {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Aggregate").field("update", &self.update).finish_non_exhaustive()
    }
}

fn of_rows(groups: &[u32], rows: &[u32]) -> Vec<u32> {
    rows.iter().map(|row| groups[*row as usize]).collect()
}

/// Groups for whose rows the code fails.
struct FailedGroups;

impl Pieces for FailedGroups {
    fn emit(&mut self, _first: u32, _emitted: Emitted) -> Result<(), Failure> {
        Ok(())
    }

    fn trap(&mut self, states: &mut States, _row: u32, group: u32, reason: String) -> Result<(), Failure> {
        states.fail(group, &reason);
        Ok(())
    }
}
