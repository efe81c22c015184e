//! Calls for a row at a time.

use arrow_array::ArrayRef;
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use wasmi::{TrapCode, Val};

use crate::deadline::Deadline;
use crate::failure::{Fault, out_of_fuel};
use crate::instances::Live;
use crate::numbers::{Numbers, Results};

/// After how many rows the time is looked at, unless they may take long: rows that use all of this fuel take seconds.
const ROWS_PER_LOOK: u64 = 64;
const FUEL_PER_LOOK: u64 = 640_000_000;

/// Calls a function of numbers for each row without NULL.
pub(crate) fn call(
    live: &mut Live,
    symbol: &str,
    arguments: &[ArrayRef],
    rows: usize,
    result: &DataType,
    deadline: Deadline,
) -> Result<ArrayRef, Fault> {
    let function = live.function(symbol)?;
    let columns: Option<Vec<Numbers>> = arguments.iter().map(|column| Numbers::of(column.as_ref())).collect();
    let (Some(columns), Some(mut results)) = (columns, Results::new(result, rows)) else {
        return Err(Fault::Broken("it takes or gives something that is not a number".to_owned()));
    };
    let nulls = arguments
        .iter()
        .fold(None, |nulls: Option<NullBuffer>, column| NullBuffer::union(nulls.as_ref(), column.nulls()));
    let (mut inputs, mut output) = (vec![Val::I32(0); columns.len()], [Val::I32(0)]);
    let rows_per_look = (FUEL_PER_LOOK / live.limits().fuel_max.max(1)).clamp(1, ROWS_PER_LOOK) as usize;
    for row in 0..rows {
        if row % rows_per_look == rows_per_look - 1 {
            deadline.check()?;
        }
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            results.push_null();
            continue;
        }
        for (input, column) in inputs.iter_mut().zip(&columns) {
            *input = column.value(row);
        }
        live.refuel()?;
        function.call(&mut live.store, &inputs, &mut output).map_err(|error| match error.as_trap_code() {
            // The fuel is for this row alone, so fewer rows do not help.
            Some(TrapCode::OutOfFuel) => Fault::Broken(out_of_fuel(live.limits())),
            _ => live.fault(&error),
        })?;
        results.push(&output[0]).map_err(Fault::Trap)?;
    }
    results.finish(nulls).map_err(Fault::Broken)
}
