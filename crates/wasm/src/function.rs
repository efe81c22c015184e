//! A function of a module over columns.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::{Array, ArrayRef, new_empty_array};
use arrow_schema::DataType;
use arrow_select::concat::concat;

use crate::deadline::{Deadline, TIME_MAX};
use crate::failure::Fault;
use crate::instances::Instances;
use crate::repeats::Repeats;
use crate::signature::takes_batches;
use crate::{Failure, Limits, Module, ModuleError, batches, rows};

/// A function of a module. It can be called by several threads.
pub struct Function {
    instances: Instances,
    symbol: String,
    arguments: Vec<DataType>,
    result: DataType,
    limits: Limits,
    takes_batches: bool,
    time_max: Duration,
    repeats: Repeats,
}

impl Function {
    /// An exported function for arguments and a result of these types.
    ///
    /// # Errors
    /// If the module exports no such function, the function has another type, or no instance can be made.
    pub fn new(
        module: &Module,
        symbol: &str,
        arguments: &[DataType],
        result: &DataType,
        limits: Limits,
    ) -> Result<Function, ModuleError> {
        let takes_batches = takes_batches(module, symbol, arguments, result)?;
        let instances = Instances::new(module.clone(), limits);
        instances.try_start()?;
        Ok(Function {
            instances,
            symbol: symbol.to_owned(),
            arguments: arguments.to_vec(),
            result: result.clone(),
            limits,
            takes_batches,
            time_max: TIME_MAX,
            repeats: Repeats::default(),
        })
    }

    /// The same function, whose calls take this long at most, and not 60 seconds. A call that takes longer stops the query and
    /// leaves out no row, because a machine that is busy must not change results.
    ///
    /// ```
    /// # use {arrow_schema::DataType::Int32, std::time::Duration, tidemill_wasm::{Function, Limits, Module}};
    /// let module = Module::new(b"(module (func (export \"one\") (result i32) i32.const 1))")?;
    /// let one = Function::new(&module, "one", &[], &Int32, Limits::default())?;
    /// assert_eq!(one.with_time_max(Duration::from_secs(5)).call(&[], 3)?.len(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_time_max(self, time_max: Duration) -> Function {
        Function { time_max, ..self }
    }

    /// The types of its arguments.
    pub fn arguments(&self) -> &[DataType] {
        &self.arguments
    }

    /// The type of its result.
    pub fn result(&self) -> &DataType {
        &self.result
    }

    /// Whether the code computes a batch at a time, and not a row at a time.
    pub fn takes_batches(&self) -> bool {
        self.takes_batches
    }

    /// One value for each of the rows.
    ///
    /// # Errors
    /// If it cannot be computed for one of them.
    pub fn call(&self, arguments: &[ArrayRef], rows: usize) -> Result<ArrayRef, Failure> {
        let fit = arguments.len() == self.arguments.len()
            && arguments
                .iter()
                .zip(&self.arguments)
                .all(|(column, wanted)| column.data_type() == wanted && column.len() == rows);
        if !fit {
            return Err(Failure::Stop("it was called with columns that it does not take".to_owned()));
        }
        if rows == 0 {
            return Ok(new_empty_array(&self.result));
        }
        let values = self.by_halves(arguments, rows, Deadline::after(self.time_max))?;
        if rows > 1 && self.instances.keep_state() && self.repeats.is_due() {
            self.check_last(arguments, &values)?;
        }
        Ok(values)
    }

    /// What needs too much at once is computed for half of the rows, and then for the other half.
    fn by_halves(
        &self,
        arguments: &[ArrayRef],
        rows: usize,
        deadline: Deadline,
    ) -> Result<ArrayRef, Failure> {
        deadline.check().map_err(Fault::final_failure)?;
        match self.at_once(arguments, rows, deadline) {
            Err(Fault::TooMuch(_)) if rows > 1 => {
                let part = |from: usize, rows: usize| {
                    let columns: Vec<ArrayRef> =
                        arguments.iter().map(|column| column.slice(from, rows)).collect();
                    self.by_halves(&columns, rows, deadline)
                };
                let half = rows / 2;
                let (first, second) = (part(0, half)?, part(half, rows - half)?);
                concat(&[&first, &second]).map_err(|error| Failure::Stop(error.to_string()))
            }
            values => values.map_err(Fault::final_failure),
        }
    }

    fn at_once(&self, arguments: &[ArrayRef], rows: usize, deadline: Deadline) -> Result<ArrayRef, Fault> {
        self.instances.with(|live| {
            if self.takes_batches {
                batches::call(live, &self.symbol, arguments, rows, &self.result, &self.limits)
            } else {
                rows::call(live, &self.symbol, arguments, rows, &self.result, deadline)
            }
        })
    }

    /// Computes the last row again, alone: it must not depend on the rows before it.
    fn check_last(&self, arguments: &[ArrayRef], values: &ArrayRef) -> Result<(), Failure> {
        let last = values.len() - 1;
        let columns: Vec<ArrayRef> = arguments.iter().map(|column| column.slice(last, 1)).collect();
        let is_same = self
            .at_once(&columns, 1, Deadline::after(self.time_max))
            .is_ok_and(|alone| alone.as_ref() == &*values.slice(last, 1));
        if is_same {
            Ok(())
        } else {
            Err(Failure::Stop(
                "it gives another value for the same arguments, depending on earlier calls; a function must depend on \
                 its arguments only"
                    .to_owned(),
            ))
        }
    }
}

impl std::fmt::Debug for Function {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Function").field("symbol", &self.symbol).finish_non_exhaustive()
    }
}

/// Functions are shared by the threads that call them.
const _: fn() = || {
    fn shared<T: Send + Sync>() {}
    shared::<Arc<Function>>();
};
