//! Functions in Python that queries call.

use arrow_array::ArrayRef;
use arrow_schema::DataType;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tidemill_engine::Cause;
use tidemill_sql::Planner;

use crate::convert::{Column, array_of, type_of};

/// Registers a function: `(name, callable, types of its arguments, type of its result)`. The callable gets [`Column`]s, and returns a
/// column of as many rows.
pub(crate) fn register(planner: &mut Planner, function: &Bound<'_, PyAny>) -> PyResult<()> {
    let (name, callable, arguments, result) =
        function.extract::<(String, Py<PyAny>, Vec<Bound<'_, PyAny>>, Bound<'_, PyAny>)>()?;
    let arguments = arguments.iter().map(type_of).collect::<PyResult<Vec<_>>>()?;
    let result = type_of(&result)?;
    let (called, returned) = (name.clone(), result.clone());
    planner.register_function(&name, arguments, result, move |columns| {
        Python::attach(|py| {
            let failed = |raised: PyErr| Cause::user(format!("function '{called}': {raised}"));
            let column = call(callable.bind(py), columns).map_err(failed)?;
            check(&column, columns, &returned)
                .map_err(|why| Cause::user(format!("function '{called}' {why}")))?;
            Ok(column)
        })
    });
    Ok(())
}

fn call(callable: &Bound<'_, PyAny>, columns: &[ArrayRef]) -> PyResult<ArrayRef> {
    let columns = columns.iter().map(|column| Column::new(ArrayRef::clone(column)));
    let columns = columns.map(|column| Py::new(callable.py(), column)).collect::<PyResult<Vec<_>>>()?;
    array_of(&callable.call1(PyTuple::new(callable.py(), columns)?)?)
}

fn check(column: &ArrayRef, arguments: &[ArrayRef], result: &DataType) -> Result<(), String> {
    let rows = arguments.first().map_or(column.len(), |argument| argument.len());
    if column.data_type() != result {
        return Err(format!("returned {} instead of {result}", column.data_type()));
    }
    if column.len() != rows {
        return Err(format!("returned {} values for {rows} rows", column.len()));
    }
    Ok(())
}
