//! Functions of rows whose code is loaded.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, SchemaRef};
use datafusion::common::ScalarValue;
use tidemill_engine::{Cause, Port};
use tidemill_operators::{Groups, KeyedFunction, KeyedRows};
use tidemill_wasm::{Failure, RowOperator, RowsGiven, States};

use crate::arguments::{Arguments, Value};
use crate::extension::{BoundCall, CallContext, LeaveOut};

/// A function of rows whose code is loaded: what its definition says.
pub(crate) struct LoadedOperator {
    /// In plans.
    pub name: String,
    /// In messages.
    pub shown: String,
    /// The columns that its rows must have.
    pub input: Vec<Field>,
    /// Those whose values are the key.
    pub key: Vec<String>,
    /// What else it is called with, which must be constant.
    pub parameters: Vec<Field>,
    /// What is kept for each key.
    pub state: Vec<Field>,
    /// The columns of what it gives.
    pub output: SchemaRef,
    pub code: Arc<RowOperator>,
}

impl LoadedOperator {
    /// What a call runs.
    ///
    /// # Errors
    /// If the columns of the rows or the constants do not fit. The error says which, and what would.
    pub fn bind(self: &Arc<Self>, inputs: &[SchemaRef], arguments: &Arguments) -> Result<BoundCall, Cause> {
        let [rows] = inputs else {
            return Err(self.error(&format!("it takes the rows of one table: write {}", self.usage())));
        };
        let columns: Vec<usize> =
            self.input.iter().map(|wanted| self.column(rows, wanted)).collect::<Result<_, _>>()?;
        let constants = self.constants(arguments)?;
        let is_key = |name: &String| self.input.iter().position(|column| column.name() == name);
        let key: Vec<usize> = self.key.iter().filter_map(is_key).map(|at| columns[at]).collect();
        let keys: Vec<String> = key.iter().map(|column| rows.field(*column).name().clone()).collect();
        let types: Vec<DataType> = key.iter().map(|column| rows.field(*column).data_type().clone()).collect();
        Groups::new(&types, 1)?;
        let (operator, rows) = (Arc::clone(self), Arc::clone(rows));
        let make = move |_, context: &CallContext| {
            let function = LoadedRows {
                operator: Arc::clone(&operator),
                columns: columns.clone(),
                constants: constants.clone(),
                states: operator.code.states(),
                leave_out: Arc::clone(&context.leave_out),
            };
            let keyed = KeyedRows::new(&rows, &key, context.keys_max, &operator.state, function);
            Box::new(keyed.expect("the types of the key were checked when the call was planned")) as _
        };
        Ok(BoundCall {
            output: Arc::clone(&self.output),
            keys: vec![keys],
            carried: Vec::new(),
            make: Arc::new(make),
        })
    }

    /// The number of a column of the rows, which has to have a name and a type.
    fn column(&self, rows: &SchemaRef, wanted: &Field) -> Result<usize, Cause> {
        let (name, data_type) = (wanted.name(), wanted.data_type());
        let Some((at, found)) = rows.column_with_name(name) else {
            let columns: Vec<&str> = rows.fields().iter().map(|field| field.name().as_str()).collect();
            let columns = columns.join(", ");
            return Err(self.error(&format!("its rows need a column {name}, and have only {columns}")));
        };
        if fits(found.data_type(), data_type) {
            Ok(at)
        } else {
            let cast = format!("{}((SELECT CAST({name} AS ...) AS {name}, ...))", self.shown);
            let found = found.data_type();
            Err(self.error(&format!(
                "column {name} of its rows must be {data_type}, not {found}; cast it: {cast}"
            )))
        }
    }

    /// The values of its parameters, given by their places or by their names.
    fn constants(&self, arguments: &Arguments) -> Result<Vec<ScalarValue>, Cause> {
        let names: Vec<&str> = self.parameters.iter().map(|parameter| parameter.name().as_str()).collect();
        arguments.check_names(&names)?;
        let positional = arguments.positional();
        if positional.len() > names.len() {
            let found = positional.len();
            let message = format!("{found} constants are too many: write {}", self.usage());
            return Err(self.error(&message));
        }
        let value = |(at, parameter): (usize, &Field)| {
            let name = parameter.name();
            let value = match (positional.get(at), arguments.get(name)) {
                (Some(value), None) | (None, Some(value)) => value,
                (None, None) => {
                    return Err(
                        self.error(&format!("the value of {name} is missing: write {}", self.usage()))
                    );
                }
                (Some(_), Some(_)) => return Err(self.error(&format!("{name} is given twice"))),
            };
            let wrong = || self.error(&format!("{name} must be {}, found {value}", parameter.data_type()));
            let constant = scalar(value).ok_or_else(wrong)?.cast_to(parameter.data_type());
            constant.map_err(|error| wrong().with_source(error))
        };
        self.parameters.iter().enumerate().map(value).collect()
    }

    fn error(&self, message: &str) -> Cause {
        Cause::user(format!("{}(): {message}", self.shown))
    }

    fn usage(&self) -> String {
        let columns: Vec<&str> = self.input.iter().map(|column| column.name().as_str()).collect();
        let rows = format!("(SELECT {} ...)", columns.join(", "));
        let constants = self
            .parameters
            .iter()
            .map(|parameter| format!("{} => {}", parameter.name(), parameter.data_type()));
        let arguments: Vec<String> = std::iter::once(rows).chain(constants).collect();
        format!("{}({})", self.shown, arguments.join(", "))
    }
}

impl fmt::Debug for LoadedOperator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LoadedOperator").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Whether values of a type are those of another one, perhaps stored in another way.
fn fits(found: &DataType, wanted: &DataType) -> bool {
    let is_text =
        |data_type: &DataType| matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let values = match found {
        DataType::Dictionary(_, values) => values.as_ref(),
        other => other,
    };
    values == wanted || (is_text(values) && is_text(wanted))
}

fn scalar(value: &Value) -> Option<ScalarValue> {
    match value {
        Value::Integer(value) => Some(ScalarValue::from(*value)),
        Value::Float(value) => Some(ScalarValue::from(*value)),
        Value::Text(value) => Some(ScalarValue::from(value.as_str())),
        Value::Boolean(value) => Some(ScalarValue::from(*value)),
        Value::Interval(_) => None,
    }
}

/// The function for the keys of a partition.
struct LoadedRows {
    operator: Arc<LoadedOperator>,
    /// Where the columns of its input are.
    columns: Vec<usize>,
    constants: Vec<ScalarValue>,
    states: States,
    leave_out: LeaveOut,
}

impl LoadedRows {
    fn failed(&self, failure: &Failure) -> Cause {
        Cause::resource(format!("{}: {failure}", self.operator.shown))
    }

    fn arguments(&self, rows: &RecordBatch) -> Result<Vec<ArrayRef>, Cause> {
        let bug = |error: &dyn fmt::Display| Cause::bug(error.to_string());
        let column = |(at, wanted): (&usize, &Field)| {
            cast(rows.column(*at), wanted.data_type()).map_err(|error| bug(&error))
        };
        let columns = self.columns.iter().zip(&self.operator.input).map(column);
        let constant =
            |value: &ScalarValue| value.to_array_of_size(rows.num_rows()).map_err(|error| bug(&error));
        columns.chain(self.constants.iter().map(constant)).collect()
    }

    fn write(
        &self,
        given: RowsGiven,
        rows: &RecordBatch,
        positions: &[u32],
        output: &mut Port,
    ) -> Result<(), Cause> {
        for (row, reason) in given.failed {
            let reason = format!("{}: {reason}", self.operator.shown);
            (self.leave_out)(&reason, &rows.slice(row as usize, 1));
        }
        for piece in given.pieces {
            let positions: Vec<u32> = piece.from.iter().map(|row| positions[*row as usize]).collect();
            let batch = RecordBatch::try_new(Arc::clone(output.schema()), piece.columns);
            output.push_batch(batch.map_err(|error| Cause::bug(error.to_string()))?, &positions)?;
        }
        Ok(())
    }
}

impl KeyedFunction for LoadedRows {
    fn resize(&mut self, keys: usize) {
        self.states.resize(keys);
    }

    fn rows(
        &mut self,
        rows: &RecordBatch,
        positions: &[u32],
        keys: &[u32],
        output: &mut Port,
    ) -> Result<(), Cause> {
        let arguments = self.arguments(rows)?;
        let given = self.operator.code.call(&mut self.states, keys, &arguments);
        let given = given.map_err(|failure| self.failed(&failure))?;
        self.write(given, rows, positions, output)
    }

    fn used(&self) -> usize {
        self.states.used()
    }

    fn is_used(&self, key: u32) -> bool {
        !self.states.is_new(key)
    }

    fn keep(&mut self, keys: &[u32]) {
        self.states.keep(keys);
    }

    fn states(&self, keys: &[u32]) -> Result<Vec<ArrayRef>, Cause> {
        self.states.get(keys).map_err(|failure| self.failed(&failure))
    }

    fn restore(&mut self, keys: &[u32], states: &[ArrayRef]) -> Result<(), Cause> {
        self.states.set(keys, states).map_err(|failure| self.failed(&failure))
    }

    fn bytes(&self) -> usize {
        self.states.bytes()
    }
}
