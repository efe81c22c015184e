//! `CREATE FUNCTION` and `CREATE AGGREGATE ... LANGUAGE wasm`.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::sql::sqlparser::ast;
use tidemill_wasm::{Aggregate, Function, Limits, MODULE_BYTES_MAX, Module, ModuleError, RowOperator};

use super::Planner;
use crate::aggregates::loaded_aggregate::LoadedAggregate;
use crate::aggregates::own_aggregate::OwnAggregate;
use crate::defined_functions::{Loaded, LoadedOperator, LoadedScalar, name_in_plans};
use crate::statement::{
    Code, CreateFunction, FunctionCode, FunctionResult, InputRows, Options, Statement, TypedName,
};
use crate::text::{Span, TextError};

/// What an instance may have at most.
const MEMORY_BYTES_MAX: u64 = 1 << 30;
/// How much fuel a call may be given. It takes less than a minute: time ends a batch only between two calls.
const FUEL_MAX: i64 = 10_000_000_000;

impl Planner {
    /// The same statement with the bytes of a file that it loads code from; `None` if it loads none.
    ///
    /// # Errors
    /// If the file cannot be read, or its reading is not permitted.
    pub(super) fn with_code_of_file(&self, statement: &Statement) -> Result<Option<Statement>, TextError> {
        let Some((path, place)) = statement.code_file() else { return Ok(None) };
        if !self.opens_files {
            let message = format!("'{path}' is a file, and you may not open files of the server's machine");
            let error = statement.error(place, message);
            return Err(error.with_hint("send the module with the statement: AS decode('...', 'base64')"));
        }
        let whole = match &self.paths_in {
            Some(folder) => folder.join(path),
            None => Path::new(path).to_owned(),
        };
        let bytes = bytes_of(&whole).map_err(|reason| {
            let error = statement.error(place, format!("'{path}' cannot be read: {reason}"));
            error.with_hint("give the path of a .wasm or .wat file")
        })?;
        Ok(Some(statement.with_code(&bytes)))
    }

    /// The function that a definition loads.
    pub(super) fn loaded(
        &self,
        create: &CreateFunction,
        code: &FunctionCode,
        statement: &Statement,
    ) -> Result<Loaded, TextError> {
        let Code::Bytes(bytes) = &code.code else {
            return Err(statement.error(code.code_span, "the file of the module was not read"));
        };
        let (symbol, symbol_span) = match &code.symbol {
            Some((symbol, place)) => (symbol.as_str(), *place),
            None => (create.name.as_str(), code.code_span),
        };
        let refused = |place: Span, error: ModuleError| {
            statement.error(place, error.message).with_optional_hint(error.hint)
        };
        let limits = limits(&code.options)?;
        let declared = self.declared(create, code, statement)?;
        let module = Module::new(bytes).map_err(|error| refused(code.code_span, error))?;
        let defined_by = format!("{}\n{symbol}\n{limits:?}\n{}", module.digest(), declared.text());
        let digest = tidemill_wasm::digest(defined_by.as_bytes());
        let shown = create.name.as_str();
        let name = name_in_plans(shown, &digest);
        let loaded = declared.load(shown, name, &module, symbol, limits);
        loaded.map_err(|error| refused(symbol_span, error))
    }

    /// The types of what a definition declares.
    fn declared(
        &self,
        create: &CreateFunction,
        code: &FunctionCode,
        statement: &Statement,
    ) -> Result<Declared, TextError> {
        let data_type = |declared: &ast::DataType, place: Span| -> Result<DataType, TextError> {
            self.with_provider(|provider| {
                provider
                    .data_type(declared)
                    .map_err(|error| TextError { span: place, ..provider.text_error(&error, statement) })
            })
        };
        let fields = |typed: &[TypedName]| -> Result<Vec<Field>, TextError> {
            let field = |one: &TypedName| {
                Ok(Field::new(one.name.as_str(), data_type(&one.data_type, one.type_span)?, true))
            };
            typed.iter().map(field).collect()
        };
        let result = match &create.result {
            FunctionResult::Value((result, place)) => DeclaredResult::Value(data_type(result, *place)?),
            FunctionResult::Rows(columns) => DeclaredResult::Rows(fields(columns)?),
        };
        let input = create.input.as_ref();
        check_state(input, &code.state, statement)?;
        Ok(Declared {
            is_aggregate: create.is_aggregate,
            input: fields(input.map_or(&[], |input| &input.columns))?,
            key: input.map_or(Vec::new(), |input| input.key.iter().map(|name| name.value.clone()).collect()),
            parameters: fields(&create.parameters)?,
            state: fields(&code.state)?,
            result,
        })
    }

    /// Makes a function callable by its name in plans.
    pub(super) fn load(&mut self, function: Loaded) -> Loaded {
        Arc::make_mut(&mut self.catalog.functions).loaded.add(function)
    }
}

/// Refuses a column of states that is also one of the key: whoever looks at the states would find two of its name.
fn check_state(
    input: Option<&InputRows>,
    state: &[TypedName],
    statement: &Statement,
) -> Result<(), TextError> {
    let Some(input) = input else { return Ok(()) };
    match state.iter().find(|column| input.key.contains(&column.name)) {
        None => Ok(()),
        Some(column) => {
            let message = format!("`{}` is a column of the key and of the state", column.name.value);
            Err(statement
                .error(column.name.span, message)
                .with_hint("give the column of the state another name"))
        }
    }
}

/// What a definition declares, with types.
struct Declared {
    is_aggregate: bool,
    /// The columns of the rows that it takes.
    input: Vec<Field>,
    key: Vec<String>,
    parameters: Vec<Field>,
    state: Vec<Field>,
    result: DeclaredResult,
}

enum DeclaredResult {
    Value(DataType),
    Rows(Vec<Field>),
}

impl Declared {
    /// All of it as a text, of which another one means another function.
    fn text(&self) -> String {
        let types = |fields: &[Field]| {
            fields.iter().fold(String::new(), |text, field| format!("{text}\n{}", field.data_type()))
        };
        let columns = |fields: &[Field]| {
            fields
                .iter()
                .fold(String::new(), |text, field| format!("{text}\n{} {}", field.name(), field.data_type()))
        };
        match &self.result {
            DeclaredResult::Value(result) if self.is_aggregate => {
                format!("aggregate {result}{}\nstate{}", types(&self.parameters), types(&self.state))
            }
            DeclaredResult::Value(result) => format!("{result}{}", types(&self.parameters)),
            DeclaredResult::Rows(output) => format!(
                "rows{}\ninput{}\nkey {}\nparameters{}\nstate{}",
                columns(output),
                columns(&self.input),
                self.key.join(", "),
                columns(&self.parameters),
                columns(&self.state)
            ),
        }
    }

    fn load(
        self,
        shown: &str,
        name: String,
        module: &Module,
        symbol: &str,
        limits: Limits,
    ) -> Result<Loaded, ModuleError> {
        let types = |fields: &[Field]| -> Vec<DataType> {
            fields.iter().map(|field| field.data_type().clone()).collect()
        };
        let (parameters, states) = (types(&self.parameters), types(&self.state));
        Ok(match &self.result {
            DeclaredResult::Value(result) if self.is_aggregate => {
                let code = Aggregate::new(module, symbol, &parameters, &states, result, limits)?;
                let aggregate = Arc::new(LoadedAggregate::new(shown, code));
                Loaded::Aggregate(Arc::new(OwnAggregate::function(&name, parameters, aggregate)))
            }
            DeclaredResult::Value(result) => {
                let function = Function::new(module, symbol, &parameters, result, limits)?;
                Loaded::Scalar(Arc::new(LoadedScalar::function(shown, name, function)))
            }
            DeclaredResult::Rows(output) => {
                let arguments: Vec<DataType> = types(&self.input).into_iter().chain(parameters).collect();
                let code = RowOperator::new(module, symbol, &arguments, &states, &types(output), limits)?;
                Loaded::Operator(Arc::new(LoadedOperator {
                    name,
                    shown: shown.to_owned(),
                    output: Arc::new(Schema::new(output.clone())),
                    input: self.input,
                    key: self.key,
                    parameters: self.parameters,
                    state: self.state,
                    code: Arc::new(code),
                }))
            }
        })
    }
}

fn limits(options: &Options) -> Result<Limits, TextError> {
    options.finish(&["memory", "fuel"])?;
    let mut limits = Limits::default();
    if let Some(bytes) = options.bytes("memory")? {
        if bytes > MEMORY_BYTES_MAX {
            return Err(options.error("memory", format!("an instance has at most {MEMORY_BYTES_MAX} bytes")));
        }
        limits.memory_bytes_max = usize::try_from(bytes).unwrap_or(usize::MAX);
    }
    if let Some(fuel) = options.integer("fuel", 1..=FUEL_MAX)? {
        limits.fuel_max = fuel.unsigned_abs();
    }
    Ok(limits)
}

/// The bytes of a file, as far as a module may have them: one more says that it is too large.
fn bytes_of(path: &Path) -> Result<Vec<u8>, String> {
    let kind = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !kind.is_file() {
        return Err("it is not a file".to_owned());
    }
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    file.take(MODULE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() > MODULE_BYTES_MAX {
        Err(format!("it has {} bytes, but a module has at most {MODULE_BYTES_MAX}", kind.len()))
    } else {
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::defined_functions::Meaning;
    use crate::statement::parse;

    const MODULE: &str = r#"'(module (func (export "f") (param i64) (result i64) (local.get 0)))'"#;

    fn execute(planner: &mut Planner, text: &str) -> Result<(), String> {
        for statement in parse(text, "test").map_err(|error| error.to_string())? {
            planner.execute(&statement).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn planner_with_function() -> Planner {
        let mut planner = Planner::new();
        let text = format!("CREATE FUNCTION f(x BIGINT) RETURNS BIGINT LANGUAGE wasm AS {MODULE}");
        execute(&mut planner, &text).unwrap();
        planner
    }

    /// The name of `f` in plans.
    fn name_in_plans(planner: &Planner) -> String {
        match &planner.catalog.defined["f"].result {
            Meaning::Loaded(function) => function.name().to_owned(),
            other => panic!("{other:?} is not loaded"),
        }
    }

    #[test]
    fn a_function_that_exists_needs_no_file() {
        let mut planner = planner_with_function();
        let of_file =
            |start: &str| format!("{start} f(x BIGINT) RETURNS BIGINT LANGUAGE wasm AS 'gone.wasm'");
        execute(&mut planner, &of_file("CREATE FUNCTION IF NOT EXISTS")).unwrap();
        let exists = execute(&mut planner, &of_file("CREATE FUNCTION")).unwrap_err();
        assert!(exists.contains("function 'f' already exists"), "{exists}");
        let missing = execute(&mut planner, &of_file("CREATE OR REPLACE FUNCTION")).unwrap_err();
        assert!(missing.contains("'gone.wasm' cannot be read"), "{missing}");
    }

    #[test]
    fn nobody_calls_code_by_its_name_in_plans() {
        let mut planner = planner_with_function();
        let name = name_in_plans(&planner);
        execute(&mut planner, "SELECT f(1)").unwrap();
        for text in [
            format!("SELECT \"{name}\"(1)"),
            format!("SELECT f(\"{name}\"(1))"),
            format!("CREATE VIEW v AS SELECT value FROM sequence() WHERE \"{name}\"(value) > 1"),
            format!("CREATE FUNCTION g(x BIGINT) RETURNS BIGINT AS '\"{name}\"(x)'"),
        ] {
            let refused = execute(&mut planner, &text).unwrap_err();
            assert!(refused.contains(&format!("unknown function `{name}`")), "{text}\n{refused}");
        }
        let own = "CREATE FUNCTION \"a@b\"(x BIGINT) RETURNS BIGINT AS 'x'; SELECT \"a@b\"(f(1))";
        execute(&mut planner, own).unwrap();
    }

    #[test]
    fn code_is_gone_with_the_last_definition_that_calls_it() {
        let mut planner = planner_with_function();
        let name = name_in_plans(&planner);
        let is_loaded = |planner: &Planner| planner.catalog.functions.loaded.scalar(&name).is_some();
        execute(&mut planner, "CREATE FUNCTION g(x BIGINT) RETURNS BIGINT AS 'f(x) + 1'").unwrap();
        let other = MODULE.replace("(local.get 0)", "(i64.const 5)");
        let text = format!("CREATE OR REPLACE FUNCTION f(x BIGINT) RETURNS BIGINT LANGUAGE wasm AS {other}");
        execute(&mut planner, &text).unwrap();
        assert!(is_loaded(&planner));
        execute(&mut planner, "SELECT g(1); DROP FUNCTION g").unwrap();
        assert!(!is_loaded(&planner));
    }

    #[test]
    fn a_call_may_not_take_many_minutes() {
        let text = format!(
            "CREATE FUNCTION f(x BIGINT) RETURNS BIGINT LANGUAGE wasm AS {MODULE} WITH (fuel = 10000000001)"
        );
        let refused = execute(&mut Planner::new(), &text).unwrap_err();
        assert!(refused.contains("fuel"), "{refused}");
    }
}
