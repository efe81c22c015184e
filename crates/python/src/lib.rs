//! The Python package `tidemill`: a database in a Python program.
//!
//! It is a client of [`Runtime`](tidemill_service::Runtime) and [`Session`](tidemill_service::Session), as the command and the server are,
//! and has no way of its own to plan or run anything. This library is the part that has to be in Rust. What can be in Python is in
//! `python/tidemill`, which has the interface for users: data frames, rows as Python values, `async`.
//!
//! Rows cross the border by the Arrow C data interface, without a copy. While the engine works, the interpreter is free, and Ctrl-C is
//! noticed.

mod convert;
mod database;
mod engine_value;
mod error;
mod function;
mod interrupt;
mod rows;

use pyo3::prelude::*;

/// The part of the package that is in Rust.
#[pymodule(gil_used = false)]
mod _tidemill {
    #[pymodule_export]
    use crate::convert::Column;
    #[pymodule_export]
    use crate::database::Connection;
    #[pymodule_export]
    use crate::error::Error;
    #[pymodule_export]
    use crate::rows::Rows;
}
