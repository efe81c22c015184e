//! Rows from and to other packages, by the Arrow C data interface in PyCapsules.

use std::ffi::CStr;
use std::sync::Arc;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi, to_ffi};
use arrow_array::ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchIterator, RecordBatchReader, StructArray, make_array};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";
const STREAM: &CStr = c"arrow_array_stream";

/// A column, or a batch of rows as a column of structs, for every package that reads Arrow data.
#[pyclass(frozen, module = "tidemill._tidemill")]
pub(crate) struct Column {
    array: ArrayRef,
}

impl Column {
    pub fn new(array: ArrayRef) -> Column {
        Column { array }
    }

    pub fn of_rows(rows: RecordBatch) -> Column {
        Column::new(Arc::new(StructArray::from(rows)))
    }
}

#[pymethods]
impl Column {
    /// Returns its schema and itself, as capsules. Nothing is copied.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        // A consumer that wants another type casts by itself, as the interface allows.
        drop(requested_schema);
        let (array, schema) = to_ffi(&self.array.to_data()).map_err(of_arrow)?;
        let schema = PyCapsule::new_with_value(py, schema, SCHEMA)?;
        let array = PyCapsule::new_with_value(py, array, ARRAY)?;
        PyTuple::new(py, [schema, array])
    }
}

pub(crate) fn of_arrow(error: ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Returns a schema for other packages.
pub(crate) fn schema_capsule<'py>(py: Python<'py>, schema: &SchemaRef) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema.as_ref()).map_err(of_arrow)?;
    PyCapsule::new_with_value(py, schema, SCHEMA)
}

/// Returns the rows of an object that offers them as a stream or as one batch.
pub(crate) fn rows_of(data: &Bound<'_, PyAny>) -> PyResult<Box<dyn RecordBatchReader + Send>> {
    if data.hasattr("__arrow_c_stream__")? {
        let capsule = data.call_method0("__arrow_c_stream__")?.cast_into::<PyCapsule>()?;
        let stream = capsule.pointer_checked(Some(STREAM))?.cast::<FFI_ArrowArrayStream>();
        // SAFETY: a capsule of this name has a stream of the C interface, which nobody uses while the interpreter is held. What it has is
        // moved out of it, and it stays there as released.
        #[expect(unsafe_code, reason = "the C interface consists of pointers")]
        let reader = unsafe { ArrowArrayStreamReader::from_raw(stream.as_ptr()) };
        return Ok(Box::new(reader.map_err(of_arrow)?));
    }
    let array = array_of(data)?;
    let Some(rows) = array.as_any().downcast_ref::<StructArray>() else {
        return Err(PyTypeError::new_err(format!(
            "rows are needed, and this is a column of {}",
            array.data_type()
        )));
    };
    let rows = RecordBatch::from(rows);
    let schema = rows.schema();
    Ok(Box::new(RecordBatchIterator::new([Ok(rows)], schema)))
}

/// Returns the column that an object offers.
pub(crate) fn array_of(data: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    let capsules = data.call_method0("__arrow_c_array__")?.cast_into::<PyTuple>()?;
    let (schema, array) = capsules.extract::<(Bound<'_, PyCapsule>, Bound<'_, PyCapsule>)>()?;
    let schema = schema.pointer_checked(Some(SCHEMA))?.cast::<FFI_ArrowSchema>();
    let array = array.pointer_checked(Some(ARRAY))?.cast::<FFI_ArrowArray>();
    // SAFETY: capsules of these names have a schema and an array of the C interface that belong together; the first lives as long as the
    // tuple, and the second is moved out of its capsule, where it stays as released.
    #[expect(unsafe_code, reason = "the C interface consists of pointers")]
    let data = unsafe { from_ffi(FFI_ArrowArray::from_raw(array.as_ptr()), schema.as_ref()) };
    Ok(make_array(data.map_err(of_arrow)?))
}

/// Returns the type that an object such as `pyarrow.float64()` stands for.
pub(crate) fn type_of(data_type: &Bound<'_, PyAny>) -> PyResult<DataType> {
    let capsule = data_type.call_method0("__arrow_c_schema__")?.cast_into::<PyCapsule>()?;
    let schema = capsule.pointer_checked(Some(SCHEMA))?.cast::<FFI_ArrowSchema>();
    // SAFETY: a capsule of this name has a schema of the C interface, and lives until the end of this function.
    #[expect(unsafe_code, reason = "the C interface consists of pointers")]
    let schema = unsafe { schema.as_ref() };
    DataType::try_from(schema).map_err(of_arrow)
}
