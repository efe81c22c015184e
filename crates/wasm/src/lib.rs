//! Functions in WebAssembly over columns.
//!
//! A module is code that a user brings along. It imports nothing, so it can read no clock, file or random number: what it
//! computes depends on its arguments. Its memory and its work are limited, and the limits are counted in the same way on every
//! machine. Floating-point results have one NaN. So a function gives the same values on every machine and in every replay.
//!
//! A [`Function`] takes Arrow arrays and gives one. It calls the module in one of two ways:
//!
//! - **A row at a time**, if the exported function takes and returns numbers. NULL among the arguments gives NULL.
//! - **A batch at a time**, if the exported function has the type `(i32, i32, i32) -> ()`: see [`batch_layout`].
//!
//! An [`Aggregate`] and a [`RowOperator`] also have states, of groups or keys. [`States`] keeps them outside of the module,
//! as columns, so that they can be saved, moved and merged without it.
//!
//! ```
//! use std::sync::Arc;
//! use arrow_array::{ArrayRef, Float64Array};
//! use arrow_schema::DataType::Float64;
//! use tidemill_wasm::{Function, Limits, Module};
//!
//! let text = r#"(module (func (export "twice") (param f64) (result f64) (f64.add (local.get 0) (local.get 0))))"#;
//! let module = Module::new(text.as_bytes())?;
//! let twice = Function::new(&module, "twice", &[Float64], &Float64, Limits::default())?;
//! let values: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.5), None]));
//! let doubled: ArrayRef = Arc::new(Float64Array::from(vec![Some(3.0), None]));
//! assert_eq!(&twice.call(&[values], 2)?, &doubled);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod batch_layout;

mod aggregate;
mod batches;
mod deadline;
mod failure;
mod function;
mod grouped;
mod image;
mod instances;
mod limits;
mod memory;
mod module;
mod numbers;
mod repeats;
mod row_operator;
mod rows;
mod sections;
mod signature;
mod state_column;
mod states;
mod steps;

pub use self::aggregate::Aggregate;
pub use self::failure::Failure;
pub use self::function::Function;
pub use self::grouped::Emitted;
pub use self::limits::Limits;
pub use self::module::{MODULE_BYTES_MAX, Module, ModuleError, digest};
pub use self::row_operator::{RowOperator, RowsGiven};
pub use self::states::States;
