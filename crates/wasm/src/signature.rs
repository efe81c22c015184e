//! Which types the functions of a module must have.

use arrow_schema::DataType;
use wasmi::{FuncType, ValType};

use crate::batch_layout::ALLOCATE;
use crate::image::is_passed;
use crate::numbers::number_type;
use crate::{Module, ModuleError};

/// Whether a function of these types takes batches, and not rows.
///
/// # Errors
/// If the module exports no such function, or the function has another type.
pub(crate) fn takes_batches(
    module: &Module,
    symbol: &str,
    arguments: &[DataType],
    result: &DataType,
) -> Result<bool, ModuleError> {
    let kind = exported(module, symbol)?;
    if is_of_numbers(kind, arguments, result) {
        return Ok(false);
    }
    check_batches(module, symbol, kind, arguments, result)?;
    Ok(true)
}

/// Refuses a function that does not take rows with the states of their groups, in this many numbers.
pub(crate) fn check_grouped(module: &Module, symbol: &str, numbers: usize) -> Result<(), ModuleError> {
    let kind = exported(module, symbol)?;
    let wanted = vec![ValType::I32; numbers];
    if kind.params() != wanted || !kind.results().is_empty() {
        let found = text(kind.params(), kind.results());
        let hint = format!("it has to be {}, for rows and the states of their groups", text(&wanted, &[]));
        return Err(ModuleError::new(format!("function `{symbol}` of the module is {found}"), hint));
    }
    check_memory(module, symbol)
}

/// Refuses types whose values cannot be passed in batches.
pub(crate) fn check_passed<'a>(types: impl IntoIterator<Item = &'a DataType>) -> Result<(), ModuleError> {
    match types.into_iter().find(|data_type| !is_passed(data_type)) {
        None => Ok(()),
        Some(other) => Err(ModuleError::new(
            format!("values of type {other} cannot be passed to a module"),
            "use BOOLEAN, integers, REAL, DOUBLE, DATE, TIMESTAMP, TEXT or BYTEA, and cast where it is called",
        )),
    }
}

fn exported<'a>(module: &'a Module, symbol: &str) -> Result<&'a FuncType, ModuleError> {
    module.function(symbol).ok_or_else(|| not_exported(module, symbol))
}

fn not_exported(module: &Module, symbol: &str) -> ModuleError {
    let names = module.exported_functions();
    let hint = match names.as_slice() {
        [] => "export it from the module: for Rust, #[unsafe(no_mangle)] pub extern \"C\" fn".to_owned(),
        names => format!("it exports {}", names.iter().take(20).copied().collect::<Vec<_>>().join(", ")),
    };
    ModuleError::new(format!("the module exports no function `{symbol}`"), hint)
}

fn is_of_numbers(kind: &FuncType, arguments: &[DataType], result: &DataType) -> bool {
    let wanted: Option<Vec<ValType>> = arguments.iter().map(number_type).collect();
    wanted.is_some_and(|wanted| kind.params() == wanted.as_slice())
        && number_type(result).is_some_and(|result| kind.results() == [result])
}

fn check_batches(
    module: &Module,
    symbol: &str,
    kind: &FuncType,
    arguments: &[DataType],
    result: &DataType,
) -> Result<(), ModuleError> {
    let of_batches = [ValType::I32, ValType::I32, ValType::I32];
    let numbers: Option<Vec<ValType>> = arguments.iter().map(number_type).collect();
    let by_row = numbers.zip(number_type(result)).map(|(numbers, result)| text(&numbers, &[result]));
    if kind.params() != of_batches || !kind.results().is_empty() {
        let found = text(kind.params(), kind.results());
        let hint = match by_row {
            Some(by_row) => {
                format!("for these types it has to be {by_row}, or {} for batches", text(&of_batches, &[]))
            }
            None => {
                format!("for these types it has to be {}, for batches of columns", text(&of_batches, &[]))
            }
        };
        return Err(ModuleError::new(format!("function `{symbol}` of the module is {found}"), hint));
    }
    check_passed(arguments.iter().chain([result]))?;
    check_memory(module, symbol)
}

/// Refuses a module into whose memory nothing can be written.
fn check_memory(module: &Module, symbol: &str) -> Result<(), ModuleError> {
    if !module.has_memory() {
        let message = format!("function `{symbol}` takes batches, but the module does not export its memory");
        return Err(ModuleError::new(message, "export it as `memory`"));
    }
    let allocates = module.function(ALLOCATE);
    let fits =
        allocates.is_some_and(|kind| kind.params() == [ValType::I32] && kind.results() == [ValType::I32]);
    if fits {
        Ok(())
    } else {
        Err(ModuleError::new(
            format!("function `{symbol}` takes batches, but the module does not export `{ALLOCATE}`"),
            format!(
                "export {ALLOCATE} of type (i32) -> i32, which gives the place of that number of free bytes"
            ),
        ))
    }
}

/// A type as it is written in WebAssembly's own texts.
fn text(parameters: &[ValType], results: &[ValType]) -> String {
    let list = |types: &[ValType]| {
        types.iter().map(|kind| format!("{kind:?}").to_lowercase()).collect::<Vec<_>>().join(", ")
    };
    match results {
        [one] => format!("({}) -> {}", list(parameters), list(&[*one])),
        other => format!("({}) -> ({})", list(parameters), list(other)),
    }
}
