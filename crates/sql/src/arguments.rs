//! The arguments of table functions: constants, given by position or by name.

use std::fmt;

use datafusion::sql::sqlparser::ast;
use tidemill_engine::Cause;

/// A constant argument of a table function.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An integer.
    Integer(i64),
    /// Any other number.
    Float(f64),
    /// A text.
    Text(String),
    /// TRUE or FALSE.
    Boolean(bool),
    /// A duration, in nanoseconds.
    Interval(i64),
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Integer(value) => write!(formatter, "{value}"),
            Value::Float(value) => write!(formatter, "{value}"),
            Value::Text(value) => write!(formatter, "'{value}'"),
            Value::Boolean(value) => write!(formatter, "{value}"),
            Value::Interval(value) => write!(formatter, "{value} ns"),
        }
    }
}

/// The constants in a call of a table function.
///
/// ```
/// use tidemill_sql::{Arguments, Value};
/// let arguments = Arguments::new("yahoo_events", vec![], vec![("rate".into(), Value::Integer(1000))]);
/// assert_eq!(arguments.integer("rate", 0..=1_000_000).unwrap(), Some(1000));
/// assert!(arguments.integer("rate", 0..=10).is_err());
/// assert!(arguments.finish(&["speed"]).is_err());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arguments {
    function: String,
    positional: Vec<Value>,
    named: Vec<(String, Value)>,
}

impl Arguments {
    /// The arguments of a call of `function`.
    pub fn new(function: &str, positional: Vec<Value>, named: Vec<(String, Value)>) -> Self {
        Arguments { function: function.to_string(), positional, named }
    }

    /// The arguments without a name.
    pub fn positional(&self) -> &[Value] {
        &self.positional
    }

    /// An integer by name, within limits.
    ///
    /// # Errors
    /// If it has another type, or exceeds the limits.
    pub fn integer(&self, name: &str, range: std::ops::RangeInclusive<i64>) -> Result<Option<i64>, Cause> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Integer(value)) if range.contains(value) => Ok(Some(*value)),
            Some(value) => {
                let (least, most) = (range.start(), range.end());
                Err(self.wrong(name, value, &format!("a whole number from {least} to {most}")))
            }
        }
    }

    /// A number by name, within limits.
    ///
    /// # Errors
    /// If it has another type, or exceeds the limits.
    pub fn number(&self, name: &str, range: std::ops::RangeInclusive<f64>) -> Result<Option<f64>, Cause> {
        let number = match self.get(name) {
            None => return Ok(None),
            Some(Value::Integer(value)) => *value as f64,
            Some(Value::Float(value)) => *value,
            Some(value) => return Err(self.wrong(name, value, "a number")),
        };
        if range.contains(&number) {
            Ok(Some(number))
        } else {
            let (least, most) = (range.start(), range.end());
            Err(self.wrong(name, &Value::Float(number), &format!("a number from {least} to {most}")))
        }
    }

    /// A text by name.
    ///
    /// # Errors
    /// If it has another type.
    pub fn text(&self, name: &str) -> Result<Option<&str>, Cause> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Text(value)) => Ok(Some(value)),
            Some(value) => Err(self.wrong(name, value, "a text in quotes")),
        }
    }

    /// A duration by name, in nanoseconds.
    ///
    /// # Errors
    /// If it has another type.
    pub fn interval_ns(&self, name: &str) -> Result<Option<i64>, Cause> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Interval(value)) => Ok(Some(*value)),
            Some(value) => Err(self.wrong(name, value, "an interval such as INTERVAL '5 seconds'")),
        }
    }

    /// Checks that there are no other arguments.
    ///
    /// # Errors
    /// If there is an argument with another name, or one without a name.
    pub fn finish(&self, known: &[&str]) -> Result<(), Cause> {
        if let Some(value) = self.positional.first() {
            return Err(Cause::user(format!(
                "{}() takes its arguments by name; write {} => {value}",
                self.function,
                known.first().unwrap_or(&"name")
            )));
        }
        self.check_names(known)
    }

    /// Checks that no argument has another name.
    ///
    /// # Errors
    /// If there is one.
    pub fn check_names(&self, known: &[&str]) -> Result<(), Cause> {
        match self.named.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some((name, _)) => {
                let hint = crate::closest(name, known.iter().copied());
                let hint = hint.map_or(String::new(), |name| format!("; did you mean {name}?"));
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                Err(Cause::user(format!("{}() has no argument {name}; it has {known}{hint}", self.function)))
            }
        }
    }

    /// The same arguments, where the only one without a name gets this one.
    pub(crate) fn with_first_named(&self, name: &str) -> Arguments {
        let mut arguments = self.clone();
        if let ([value], None) = (self.positional.as_slice(), self.get(name)) {
            arguments.named.push((name.to_owned(), value.clone()));
            arguments.positional.clear();
        }
        arguments
    }

    /// An error in the call.
    pub(crate) fn error(&self, message: &str) -> Cause {
        Cause::user(format!("{}(): {message}", self.function))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.named.iter().find(|(given, _)| given == name).map(|(_, value)| value)
    }

    pub(crate) fn wrong(&self, name: &str, value: &Value, expected: &str) -> Cause {
        Cause::user(format!("{}(): {name} must be {expected}, found {value}", self.function))
    }
}

impl fmt::Display for Arguments {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let positional = self.positional.iter().map(Value::to_string);
        let named = self.named.iter().map(|(name, value)| format!("{name} => {value}"));
        formatter.write_str(&positional.chain(named).collect::<Vec<_>>().join(", "))
    }
}

/// The constant that an expression denotes.
pub(crate) fn value_of(expression: &ast::Expr) -> Result<Value, Cause> {
    let wrong = || Cause::user(format!("expected a constant, found {expression}"));
    match expression {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Number(digits, _) => digits
                .parse()
                .map(Value::Integer)
                .or_else(|_| digits.parse().map(Value::Float))
                .map_err(|_| wrong()),
            ast::Value::SingleQuotedString(text) => Ok(Value::Text(text.clone())),
            ast::Value::Boolean(value) => Ok(Value::Boolean(*value)),
            _ => Err(wrong()),
        },
        ast::Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } => match value_of(expr)? {
            Value::Integer(value) => Ok(Value::Integer(-value)),
            Value::Float(value) => Ok(Value::Float(-value)),
            _ => Err(wrong()),
        },
        ast::Expr::Interval(interval) => {
            crate::text::duration::interval_ns(interval).map(Value::Interval).map_err(Cause::user)
        }
        ast::Expr::Nested(inner) => value_of(inner),
        ast::Expr::Cast { kind: ast::CastKind::Cast, expr, data_type, format: None, .. } => {
            cast(value_of(expr)?, data_type).ok_or_else(wrong)
        }
        _ => Err(wrong()),
    }
}

/// A constant that a cast to a type does not change, as this type.
fn cast(value: Value, data_type: &ast::DataType) -> Option<Value> {
    use ast::DataType as Type;
    match (value, data_type) {
        (Value::Integer(value), Type::Double(_) | Type::DoublePrecision | Type::Float8 | Type::Float64) => {
            Some(Value::Float(value as f64))
        }
        (Value::Integer(value), Type::Int(_) | Type::Integer(_) | Type::Int4(_)) => {
            i32::try_from(value).ok().map(|_| Value::Integer(value))
        }
        (Value::Integer(value), Type::SmallInt(_) | Type::Int2(_)) => {
            i16::try_from(value).ok().map(|_| Value::Integer(value))
        }
        (value @ Value::Integer(_), Type::BigInt(_) | Type::Int8(_))
        | (value @ Value::Float(_), Type::Double(_) | Type::DoublePrecision | Type::Float8 | Type::Float64)
        | (value @ Value::Text(_), Type::Varchar(None) | Type::Text | Type::String(None))
        | (value @ Value::Boolean(_), Type::Boolean | Type::Bool)
        | (value @ Value::Interval(_), Type::Interval { .. }) => Some(value),
        _ => None,
    }
}
