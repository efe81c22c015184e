//! Calls for a batch at a time: columns are written to the module's memory, and the result is read from there.

use arrow_array::ArrayRef;
use arrow_schema::DataType;

use crate::Limits;
use crate::batch_layout::COLUMN_BYTES;
use crate::failure::Fault;
use crate::image::{PieceSize, check_rows};
use crate::instances::Live;
use crate::memory::Memory;

/// Calls a function with whole columns.
pub(crate) fn call(
    live: &mut Live,
    symbol: &str,
    arguments: &[ArrayRef],
    rows: usize,
    result: &DataType,
    limits: &Limits,
) -> Result<ArrayRef, Fault> {
    check_rows(rows)?;
    live.refuel()?;
    let descriptions = (arguments.len() + 1) * COLUMN_BYTES;
    let mut image = PieceSize::new(descriptions).with_columns(arguments, false).allocate(live, limits)?;
    let described = image.reserve(descriptions);
    image.put_columns(described, arguments, false)?;
    image.write(live)?;
    let function = live.function(symbol)?;
    let call = function.typed::<(i32, i32, i32), ()>(&live.store);
    let call = call.map_err(|error| Fault::Broken(error.to_string()))?;
    let result_at = described + arguments.len() * COLUMN_BYTES;
    let values = (rows as i32, image.pointer(described), image.pointer(result_at));
    call.call(&mut live.store, values).map_err(|error| live.fault(&error))?;
    let memory = Memory { bytes: live.memory()?.data(&live.store) };
    memory.column(image.place(result_at), rows, result)
}
