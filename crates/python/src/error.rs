//! Errors of the engine as exceptions.

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use tidemill_service::Error as EngineError;

pyo3::create_exception!(
    tidemill,
    Error,
    PyException,
    "Why a statement or call was not carried out: `sqlstate`, `position` (a character of the text, from 1) and `hint`."
);

/// Returns the exception for an error of the engine.
pub(crate) fn raised(py: Python<'_>, error: &EngineError) -> PyErr {
    let text = error.to_string();
    let hint = error.hint();
    let told = match hint {
        // An error in a text shows its hint below the place.
        Some(hint) if !text.contains(hint) => format!("{text}\nhint: {hint}"),
        _ => text,
    };
    let exception = Error::new_err(told);
    let value = exception.value(py);
    let set = value
        .setattr("sqlstate", error.sqlstate())
        .and_then(|()| value.setattr("position", error.position()))
        .and_then(|()| value.setattr("hint", hint));
    set.map_or_else(|failed| failed, |()| exception)
}
