//! Generators of rows: declared arguments, and the source that they describe.

use std::fmt;

use tidemill_engine::Cause;

use crate::arguments::{Arguments, Value};
use crate::relations::source_definition::SourceDefinition;
use crate::statement::OptionValue;
use crate::statement::declared::{DeclaredValues, OptionDefault, OptionDefinition, OptionKind, TypedValue};

type Define = dyn Fn(&DeclaredValues) -> Result<SourceDefinition, Cause> + Send + Sync;

/// A generator of rows. A query calls it in FROM (`name(argument => value)`), and a statement names it as a source
/// (`connector = 'generator', function = 'name', argument = value`). The declared arguments are checked the same way in
/// both.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_connect::generator::sequence::sequence_schema;
/// use tidemill_connect::generator::{Sequence, SequenceConfig};
/// use tidemill_sql::{
///     Generator, OptionDefault, OptionDefinition, OptionKind, Planner, Projected, Reply, SourceDefinition, parse,
/// };
///
/// const ARGUMENTS: &[OptionDefinition] = &[OptionDefinition::new(
///     "count",
///     OptionKind::Integer { least: 0, most: 1000 },
///     OptionDefault::Value("10"),
///     "the number of rows",
/// )];
/// let generator = Generator::new("numbers from 0", ARGUMENTS, |arguments| {
///     let count = arguments.integer("count").and_then(|count| count.try_into().ok());
///     let config = SequenceConfig { count, ..Default::default() };
///     let open = move |columns: Option<&[usize]>| Projected::open(Sequence::new(config)?, columns);
///     let numbers = SourceDefinition::new("numbers", sequence_schema(), Arc::new(open));
///     Ok(SourceDefinition { is_finite: true, is_repeatable: true, ..numbers })
/// });
/// let mut planner = Planner::new();
/// planner.register_generator("numbers", generator);
/// let mut answer = |sql: &str| planner.execute(&parse(sql, "example").unwrap()[0]);
/// assert!(matches!(answer("SELECT value FROM numbers(count => 3)"), Ok(Reply::Query(_))));
/// let Err(error) = answer("SELECT value FROM numbers(cuont => 3)") else { panic!("it is refused") };
/// assert!(error.to_string().contains("has no argument cuont; it has count; did you mean count?"), "{error}");
/// ```
pub struct Generator {
    doc: &'static str,
    arguments: &'static [OptionDefinition],
    first_by_position: bool,
    opens_files: bool,
    define: Box<Define>,
}

impl Generator {
    /// A generator with these arguments. `define` receives them checked, with their defaults.
    pub fn new(
        doc: &'static str,
        arguments: &'static [OptionDefinition],
        define: impl Fn(&DeclaredValues) -> Result<SourceDefinition, Cause> + Send + Sync + 'static,
    ) -> Generator {
        Generator { doc, arguments, first_by_position: false, opens_files: false, define: Box::new(define) }
    }

    /// The same generator, whose first argument may be given without its name.
    #[must_use]
    pub fn with_first_by_position(self) -> Generator {
        Generator { first_by_position: true, ..self }
    }

    /// The same generator, which reads files: it is refused to those who may not open any.
    pub(crate) fn with_files(self) -> Generator {
        Generator { opens_files: true, ..self }
    }

    /// Whether it reads files.
    pub(crate) fn opens_files(&self) -> bool {
        self.opens_files
    }

    /// What it makes, in a line.
    pub fn doc(&self) -> &'static str {
        self.doc
    }

    /// Its arguments.
    pub fn arguments(&self) -> &'static [OptionDefinition] {
        self.arguments
    }

    /// The source that these values describe.
    pub(crate) fn define(&self, values: &DeclaredValues) -> Result<SourceDefinition, Cause> {
        (self.define)(values)
    }

    /// The source that a call in FROM describes.
    pub(crate) fn call(&self, arguments: &Arguments) -> Result<SourceDefinition, Cause> {
        let first = self.arguments.first().filter(|_| self.first_by_position);
        let arguments = match first {
            Some(first) => arguments.with_first_named(first.name),
            None => arguments.clone(),
        };
        let names: Vec<&str> = self.arguments.iter().map(|argument| argument.name).collect();
        arguments.finish(&names)?;
        let values = self.arguments.iter().map(|argument| Ok((argument.name, value(&arguments, argument)?)));
        self.define(&DeclaredValues::new(values.collect::<Result<_, Cause>>()?))
    }
}

/// The value of one argument; its default if it is not given.
fn value(arguments: &Arguments, declared: &OptionDefinition) -> Result<Option<TypedValue>, Cause> {
    let name = declared.name;
    let Some(given) = arguments.get(name) else {
        if declared.default == OptionDefault::Required {
            return Err(arguments.error(&format!("the argument {name} is missing; add {name} => ...")));
        }
        return declared.typed_default().map_err(Cause::bug);
    };
    if let Some(expected) = wrong_kind(declared.kind, given) {
        return Err(arguments.wrong(name, given, expected));
    }
    let typed = declared.kind.typed(name, &as_option(given));
    typed.map(Some).map_err(|(message, hint)| {
        let hint = hint.map_or(String::new(), |hint| format!("; {hint}"));
        arguments.error(&format!("{message}{hint}"))
    })
}

/// What is expected where a constant of another kind is given. Options are more lenient, because a file of settings has
/// only texts.
fn wrong_kind(kind: OptionKind, given: &Value) -> Option<&'static str> {
    let (is_right, expected) = match kind {
        OptionKind::Text | OptionKind::Choice(_) | OptionKind::Character | OptionKind::Names => {
            (matches!(given, Value::Text(_)), "a text in quotes")
        }
        OptionKind::Boolean => (matches!(given, Value::Boolean(_)), "true or false"),
        OptionKind::Integer { .. } => (matches!(given, Value::Integer(_)), "a whole number"),
        OptionKind::Duration | OptionKind::DurationOr(_) => {
            (matches!(given, Value::Interval(_) | Value::Text(_)), "an interval such as INTERVAL '5 seconds'")
        }
        OptionKind::Bytes => (matches!(given, Value::Integer(_) | Value::Text(_)), "a size such as '64 MB'"),
    };
    (!is_right).then_some(expected)
}

fn as_option(value: &Value) -> OptionValue {
    match value {
        Value::Integer(number) => OptionValue::Number(number.to_string()),
        Value::Float(number) => OptionValue::Number(number.to_string()),
        Value::Text(text) => OptionValue::Text(text.clone()),
        Value::Boolean(value) => OptionValue::Boolean(*value),
        Value::Interval(length_ns) => OptionValue::Interval(*length_ns),
    }
}

impl fmt::Debug for Generator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Generator").field("doc", &self.doc).finish_non_exhaustive()
    }
}
