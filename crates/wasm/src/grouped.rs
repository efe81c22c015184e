//! Calls for a batch of rows that change the states of their groups, and may give rows.

use arrow_array::{ArrayRef, UInt32Array};
use arrow_schema::DataType;
use arrow_select::concat::concat;
use arrow_select::take::take;

use crate::batch_layout::{COLUMN_BYTES, OUTPUT_BYTES};
use crate::failure::Fault;
use crate::image::{Image, PieceSize, check_rows};
use crate::instances::Live;
use crate::memory::Memory;
use crate::{Failure, Limits};

/// Rows with the states of their groups.
pub(crate) struct Batch<'a> {
    pub arguments: &'a [ArrayRef],
    /// For each row, the number of its group.
    pub groups: &'a [u32],
    /// A row for each group.
    pub states: &'a [ArrayRef],
}

/// What a call gives.
#[derive(Debug, PartialEq)]
pub(crate) struct Changed {
    /// The states of the groups.
    pub states: Vec<ArrayRef>,
    pub output: Emitted,
}

/// Rows that a call gives.
#[derive(Debug, Default, PartialEq)]
pub struct Emitted {
    /// For each of them, the row of the input that it comes from. The numbers do not fall.
    pub from: Vec<u32>,
    /// Their columns; none, if there are no rows.
    pub columns: Vec<ArrayRef>,
}

impl Emitted {
    /// Adds rows that come from input rows whose first is `first`.
    pub(crate) fn append(&mut self, first: u32, more: Emitted) -> Result<(), Failure> {
        if more.from.is_empty() {
            return Ok(());
        }
        self.from.extend(more.from.iter().map(|row| first + row));
        if self.columns.is_empty() {
            self.columns = more.columns;
            return Ok(());
        }
        for (column, further) in self.columns.iter_mut().zip(&more.columns) {
            let both = concat(&[column.as_ref(), further.as_ref()]);
            *column = both.map_err(|error| Failure::Stop(error.to_string()))?;
        }
        Ok(())
    }
}

/// Calls a function with rows and states. `output`: the types of the rows that it gives, if it gives any.
pub(crate) fn call(
    live: &mut Live,
    symbol: &str,
    batch: &Batch<'_>,
    output: Option<&[DataType]>,
    limits: &Limits,
) -> Result<Changed, Fault> {
    let rows = batch.groups.len();
    check_rows(rows)?;
    live.refuel()?;
    let placed = Placed::new(live, batch, output, limits)?;
    let function = live.function(symbol)?;
    let broken = |error: wasmi::Error| Fault::Broken(error.to_string());
    let count = |of: usize| of as i32;
    let groups = batch.states.first().map_or(0, |column| column.len());
    let pointer = |offset: usize| placed.image.pointer(offset);
    let (arguments, of_rows, states) =
        (pointer(placed.arguments), pointer(placed.groups), pointer(placed.states));
    let done = match output {
        None => {
            let call = function.typed::<(i32, i32, i32, i32, i32), ()>(&live.store).map_err(broken)?;
            call.call(&mut live.store, (count(rows), arguments, of_rows, count(groups), states))
        }
        Some(_) => {
            let call = function.typed::<(i32, i32, i32, i32, i32, i32), ()>(&live.store).map_err(broken)?;
            let given = (count(rows), arguments, of_rows, count(groups), states, pointer(placed.output));
            call.call(&mut live.store, given)
        }
    };
    done.map_err(|error| live.fault(&error))?;
    let memory = Memory { bytes: live.memory()?.data(&live.store) };
    let state = |(index, column): (usize, &ArrayRef)| {
        let place = placed.image.place(placed.states + index * COLUMN_BYTES);
        memory.column(place, groups, column.data_type())
    };
    let states = batch.states.iter().enumerate().map(state).collect::<Result<_, _>>()?;
    let output = match output {
        None => Emitted::default(),
        Some(types) => emitted(&memory, placed.image.place(placed.output), rows, types)?,
    };
    Ok(Changed { states, output })
}

/// Where the parts of a batch stand in a piece of memory.
struct Placed {
    image: Image,
    arguments: usize,
    states: usize,
    output: usize,
    groups: usize,
}

impl Placed {
    fn new(
        live: &mut Live,
        batch: &Batch<'_>,
        output: Option<&[DataType]>,
        limits: &Limits,
    ) -> Result<Placed, Fault> {
        let described = [
            batch.arguments.len() * COLUMN_BYTES,
            batch.states.len() * COLUMN_BYTES,
            output.map_or(0, |types| OUTPUT_BYTES + types.len() * COLUMN_BYTES),
            batch.groups.len() * 4,
        ];
        let size = described.iter().fold(PieceSize::new(0), |size, bytes| size.with_bytes(Some(*bytes)));
        let size = size.with_columns(batch.arguments, false).with_columns(batch.states, true);
        let mut image = size.allocate(live, limits)?;
        let [arguments, states, output, groups] = described.map(|bytes| image.reserve(bytes));
        image.put_numbers(groups, batch.groups.iter().copied());
        image.put_columns(arguments, batch.arguments, false)?;
        image.put_columns(states, batch.states, true)?;
        image.write(live)?;
        Ok(Placed { image, arguments, states, output, groups })
    }
}

/// The rows that are described at a place.
fn emitted(
    memory: &Memory<'_>,
    place: usize,
    input_rows: usize,
    types: &[DataType],
) -> Result<Emitted, Fault> {
    let rows = memory.pointer(place)?;
    if rows == 0 {
        return Ok(Emitted::default());
    }
    let bytes = rows.checked_mul(4).ok_or_else(|| Fault::Broken(format!("it gives {rows} rows")))?;
    let from = memory.read(memory.pointer(place + 4)?, bytes, "the origins of its rows")?;
    let from: Vec<u32> = from.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
    if from.windows(2).any(|pair| pair[0] > pair[1]) || from.iter().any(|row| *row as usize >= input_rows) {
        let message = "it gives rows that do not come from the rows of the batch in their order";
        return Err(Fault::Broken(message.to_owned()));
    }
    let column = |(index, data_type): (usize, &DataType)| {
        memory.column(place + OUTPUT_BYTES + index * COLUMN_BYTES, rows, data_type)
    };
    let columns = types.iter().enumerate().map(column).collect::<Result<_, _>>()?;
    Ok(Emitted { from, columns })
}

/// Some rows of columns.
pub(crate) fn taken(columns: &[ArrayRef], rows: &[u32]) -> Result<Vec<ArrayRef>, Failure> {
    let rows = UInt32Array::from(rows.to_vec());
    let taken = columns.iter().map(|column| take(column.as_ref(), &rows, None)).collect::<Result<_, _>>();
    taken.map_err(|error| Failure::Stop(error.to_string()))
}
