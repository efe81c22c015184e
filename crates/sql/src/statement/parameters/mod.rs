//! Parameters of a statement: `$1`, `$2`, ... stand for values that come later.

pub(super) mod compared_lists;
pub(super) mod constants;
pub(super) mod whole_values;

use std::ops::ControlFlow;

use datafusion::arrow::datatypes::DataType as ColumnType;
use datafusion::sql::sqlparser::ast::{
    self, ArrayElemTypeDef, BinaryOperator, CastKind, DataType, ExactNumberInfo, Expr, LimitClause, Query,
    TimezoneInfo, Value, ValueWithSpan, Visitor, VisitorMut,
};
use datafusion::sql::sqlparser::tokenizer::Span as TokenSpan;

use self::constants::{constant, constant_in, null_of};
use super::rewrites::list_text::list_items;
use super::{Statement, StatementKind, parts};
use crate::TextError;
use crate::text::Span;
use tidemill_trees::syntax::{Node, walk, walk_mut};

/// The most parameters of a statement: as many as the protocol of PostgreSQL can count.
const PARAMETERS_MAX: usize = 65_535;

/// What a parameter stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParameterType {
    /// `BOOLEAN`
    Boolean,
    /// `SMALLINT`
    SmallInt,
    /// `INTEGER`
    Integer,
    /// `BIGINT`
    BigInt,
    /// `REAL`
    Real,
    /// `DOUBLE`
    Double,
    /// `DECIMAL`, with the digits that the value has.
    Decimal,
    /// `VARCHAR`
    Text,
    /// `BYTEA`; the value is written in hexadecimal digits.
    Bytes,
    /// `DATE`
    Date,
    /// `TIME`
    Time,
    /// `TIMESTAMP`
    Timestamp,
    /// `TIMESTAMP WITH TIME ZONE`
    TimestampWithTimeZone,
    /// `INTERVAL`
    Interval,
    /// A list of values of another type, such as `BIGINT[]`.
    List(&'static ParameterType),
}

/// All types but lists.
static ITEMS: [ParameterType; 14] = [
    ParameterType::Boolean,
    ParameterType::SmallInt,
    ParameterType::Integer,
    ParameterType::BigInt,
    ParameterType::Real,
    ParameterType::Double,
    ParameterType::Decimal,
    ParameterType::Text,
    ParameterType::Bytes,
    ParameterType::Date,
    ParameterType::Time,
    ParameterType::Timestamp,
    ParameterType::TimestampWithTimeZone,
    ParameterType::Interval,
];

impl ParameterType {
    /// A list of values of this type; `None` for lists themselves.
    ///
    /// ```
    /// use tidemill_sql::ParameterType;
    /// let list = ParameterType::BigInt.list().unwrap();
    /// assert_eq!((list, list.list()), (ParameterType::List(&ParameterType::BigInt), None));
    /// ```
    pub fn list(self) -> Option<ParameterType> {
        ITEMS.iter().find(|item| **item == self).map(ParameterType::List)
    }

    /// The type of the values of a column; `None` if no parameter has such values.
    ///
    /// ```
    /// use tidemill_sql::ParameterType;
    /// let kind = ParameterType::of_column(&tidemill_engine::arrow::schema::DataType::Int16);
    /// assert_eq!(kind, Some(ParameterType::SmallInt));
    /// ```
    pub fn of_column(data_type: &ColumnType) -> Option<ParameterType> {
        Some(match data_type {
            ColumnType::Boolean => ParameterType::Boolean,
            ColumnType::Int8 | ColumnType::Int16 | ColumnType::UInt8 => ParameterType::SmallInt,
            ColumnType::Int32 | ColumnType::UInt16 => ParameterType::Integer,
            ColumnType::Int64 | ColumnType::UInt32 => ParameterType::BigInt,
            ColumnType::UInt64
            | ColumnType::Decimal32(..)
            | ColumnType::Decimal64(..)
            | ColumnType::Decimal128(..)
            | ColumnType::Decimal256(..) => ParameterType::Decimal,
            ColumnType::Float16 | ColumnType::Float32 => ParameterType::Real,
            ColumnType::Float64 => ParameterType::Double,
            ColumnType::Utf8 | ColumnType::LargeUtf8 | ColumnType::Utf8View => ParameterType::Text,
            ColumnType::Binary | ColumnType::LargeBinary | ColumnType::BinaryView => ParameterType::Bytes,
            ColumnType::Date32 | ColumnType::Date64 => ParameterType::Date,
            ColumnType::Time32(_) | ColumnType::Time64(_) => ParameterType::Time,
            ColumnType::Timestamp(_, None) => ParameterType::Timestamp,
            ColumnType::Timestamp(_, Some(_)) => ParameterType::TimestampWithTimeZone,
            ColumnType::Interval(_) | ColumnType::Duration(_) => ParameterType::Interval,
            ColumnType::List(item) | ColumnType::LargeList(item) | ColumnType::FixedSizeList(item, _) => {
                ParameterType::of_column(item.data_type())?.list()?
            }
            _ => return None,
        })
    }
}

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// What it is.
    pub kind: ParameterType,
    /// The value as text, as a literal of its type has it between the quotes, and a list as PostgreSQL writes it:
    /// `{1,NULL,2}`. `None` is NULL.
    pub value: Option<String>,
}

impl Parameter {
    /// NULL of a type.
    #[must_use]
    pub fn null(kind: ParameterType) -> Parameter {
        Parameter { kind, value: None }
    }

    /// It as an expression. A value never becomes a piece of the statement's text, so nothing in it has a meaning.
    fn expression(&self) -> Expr {
        let text = |value: &str| Expr::value(Value::SingleQuotedString(value.to_owned()));
        let cast = |inner: Expr| Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(inner),
            data_type: self.data_type(),
            array: false,
            format: None,
        };
        match (&self.value, self.kind) {
            (None, _) => cast(Expr::value(Value::Null)),
            // Other texts of a statement have no cast either, so that they compare with other types as those do.
            (Some(value), ParameterType::Text) => text(value),
            (Some(value), ParameterType::Bytes) => Expr::value(Value::HexStringLiteral(value.clone())),
            (Some(value), ParameterType::Interval) => Expr::Interval(ast::Interval {
                value: Box::new(text(value)),
                leading_field: None,
                leading_precision: None,
                last_field: None,
                fractional_seconds_precision: None,
            }),
            (Some(value), ParameterType::List(item)) => match list_items(value) {
                Some(items) => {
                    let item = |value| Parameter { kind: *item, value }.expression();
                    cast(Expr::Array(ast::Array { elem: items.into_iter().map(item).collect(), named: true }))
                }
                // It is refused with its text.
                None => cast(text(value)),
            },
            (Some(value), _) => cast(text(value)),
        }
    }

    /// Its type, as a declaration denotes it.
    pub(crate) fn data_type(&self) -> DataType {
        match self.kind {
            ParameterType::Boolean => DataType::Boolean,
            ParameterType::SmallInt => DataType::SmallInt(None),
            ParameterType::Integer => DataType::Integer(None),
            ParameterType::BigInt => DataType::BigInt(None),
            ParameterType::Real => DataType::Real,
            ParameterType::Double => DataType::Double(ExactNumberInfo::None),
            ParameterType::Decimal => DataType::Decimal(digits(self.value.as_deref())),
            ParameterType::Text => DataType::Varchar(None),
            ParameterType::Bytes => DataType::Bytea,
            ParameterType::Date => DataType::Date,
            ParameterType::Time => DataType::Time(None, TimezoneInfo::None),
            ParameterType::Timestamp => DataType::Timestamp(None, TimezoneInfo::None),
            ParameterType::TimestampWithTimeZone => DataType::Timestamp(None, TimezoneInfo::WithTimeZone),
            ParameterType::Interval => DataType::Interval { fields: None, precision: None },
            ParameterType::List(item) => {
                let items = self.value.as_deref().and_then(list_items).unwrap_or_default();
                let item = match item {
                    ParameterType::Decimal => {
                        DataType::Decimal(digits(items.iter().flatten().map(String::as_str)))
                    }
                    item => Parameter::null(*item).data_type(),
                };
                DataType::Array(ArrayElemTypeDef::SquareBracket(Box::new(item), None))
            }
        }
    }
}

/// As many digits as decimals have.
fn digits<'a>(values: impl IntoIterator<Item = &'a str>) -> ExactNumberInfo {
    let count = |part: &str| part.chars().filter(char::is_ascii_digit).count() as u64;
    let counts = values.into_iter().map(|value| {
        let (whole, fraction) = value.split_once('.').unwrap_or((value, ""));
        (count(whole), count(fraction))
    });
    let most = counts.reduce(|most, one| (most.0.max(one.0), most.1.max(one.1)));
    let Some((whole, scale)) = most else { return ExactNumberInfo::PrecisionAndScale(38, 10) };
    ExactNumberInfo::PrecisionAndScale((whole + scale).max(1), scale as i64)
}

impl Statement {
    /// How many parameters it has: the highest number among `$1`, `$2`, ...
    #[must_use]
    pub fn parameters(&self) -> usize {
        let mut search = ParameterSearch::default();
        let _ = parts::visit(self, &mut search);
        search.highest
    }

    /// The numbers of its parameters, each as often as it occurs.
    #[must_use]
    pub fn parameter_numbers(&self) -> Vec<usize> {
        match &self.kind {
            StatementKind::Query(query, _) => numbers_in(&**query),
            _ => Vec::new(),
        }
    }

    /// The parameters whose type follows from where they stand, from 1: a number of rows (`LIMIT $1`), or what is cast
    /// (`CAST($1 AS DATE)`).
    #[must_use]
    pub(crate) fn known_parameters(&self) -> Vec<(usize, ParameterType)> {
        let mut search = ParameterSearch::default();
        let _ = parts::visit(self, &mut search);
        search.known
    }

    /// Whether a parameter stands where the planner needs a constant, so that the statement is planned for each of its values.
    #[must_use]
    pub fn has_constant_parameters(&self) -> bool {
        let mut search = ParameterSearch::default();
        let _ = parts::visit(self, &mut search);
        search.has_constants
    }

    /// The parameters that are one side of `+` or `-`, from 1.
    #[must_use]
    pub(crate) fn added_parameters(&self) -> Vec<usize> {
        let mut search = ParameterSearch::default();
        let _ = parts::visit(self, &mut search);
        search.added
    }

    /// The first parameter as written, and its place.
    pub(crate) fn first_parameter(&self) -> Option<(String, Span)> {
        let mut search = ParameterSearch::default();
        let _ = parts::visit(self, &mut search);
        let (name, span) = search.first?;
        Some((name, self.script.span_of_tokens(span).unwrap_or(self.span)))
    }

    /// The statement with a value for each of its parameters.
    ///
    /// ```
    /// use tidemill_sql::{Parameter, ParameterType, Planner, Reply, divide};
    /// let statement = divide("SELECT $1 || '!' AS said", "example").unwrap()[0].read().unwrap();
    /// let said = Parameter { kind: ParameterType::Text, value: Some("it's; --".to_owned()) };
    /// let Ok(Reply::Rows(rows)) = Planner::new().execute(&statement.bind(&[Some(said)]).unwrap()) else { panic!() };
    /// assert_eq!(rows.num_rows(), 1);
    /// ```
    ///
    /// # Errors
    /// If a parameter has a number that no statement can have. Parameters for which there is no value stay.
    pub fn bind(&self, values: &[Option<Parameter>]) -> Result<Statement, TextError> {
        if self.parameters() > PARAMETERS_MAX {
            let message = format!("a statement has at most {PARAMETERS_MAX} parameters");
            return Err(self.error(self.span, message));
        }
        let mut bound = self.clone();
        visit_mut(&mut bound, &mut Bound(values));
        Ok(bound)
    }
}

/// The numbers of the parameters of a tree.
pub(super) fn numbers_in(node: &impl Node) -> Vec<usize> {
    struct Numbers(Vec<usize>);

    impl Visitor for Numbers {
        type Break = ();

        fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
            if let Expr::Value(ValueWithSpan { value: Value::Placeholder(name), .. }) = expression {
                self.0.extend(number(name));
            }
            ControlFlow::Continue(())
        }
    }

    let mut numbers = Numbers(Vec::new());
    let _ = walk(node, &mut numbers);
    numbers.0
}

/// The number of a parameter, from 1.
pub(crate) fn number(name: &str) -> Option<usize> {
    name.strip_prefix('$')?.parse().ok().filter(|number| *number > 0)
}

#[derive(Default)]
struct ParameterSearch {
    highest: usize,
    /// Those whose type follows from where they stand.
    known: Vec<(usize, ParameterType)>,
    first: Option<(String, TokenSpan)>,
    /// Those that are one side of `+` or `-`.
    added: Vec<usize>,
    /// Whether one of them stands for a constant.
    has_constants: bool,
}

impl ParameterSearch {
    fn note(&mut self, expression: Option<&Expr>, kind: ParameterType) {
        if let Some(Expr::Value(ValueWithSpan { value: Value::Placeholder(name), .. })) = expression {
            self.known.extend(number(name).map(|number| (number, kind)));
        }
    }
}

impl Visitor for ParameterSearch {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        if let Some(LimitClause::LimitOffset { limit, offset, limit_by: _ }) = &query.limit_clause {
            self.note(limit.as_ref(), ParameterType::BigInt);
            self.note(offset.as_ref().map(|offset| &offset.value), ParameterType::BigInt);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        if let Expr::Cast { expr, data_type, .. } = expression
            && let Some(kind) = kind_of(data_type)
        {
            self.note(Some(expr), kind);
        }
        if let Expr::BinaryOp { left, op: BinaryOperator::Plus | BinaryOperator::Minus, right } = expression {
            for side in [left, right] {
                if let Expr::Value(ValueWithSpan { value: Value::Placeholder(name), .. }) = side.as_ref() {
                    self.added.extend(number(name));
                }
            }
        }
        if let Some(place) = constant_in(expression) {
            self.note(Some(place), ParameterType::Text);
            self.has_constants = true;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_value(&mut self, value: &ValueWithSpan) -> ControlFlow<()> {
        if let Value::Placeholder(name) = &value.value {
            self.highest = self.highest.max(number(name).unwrap_or_default());
            self.first.get_or_insert_with(|| (name.clone(), value.span));
        }
        ControlFlow::Continue(())
    }
}

/// What a parameter is that is cast to this type.
pub(crate) fn kind_of(data_type: &DataType) -> Option<ParameterType> {
    Some(match data_type {
        DataType::Boolean | DataType::Bool => ParameterType::Boolean,
        DataType::SmallInt(_) | DataType::Int2(_) => ParameterType::SmallInt,
        DataType::Integer(_) | DataType::Int(_) | DataType::Int4(_) => ParameterType::Integer,
        DataType::BigInt(_) | DataType::Int8(_) => ParameterType::BigInt,
        DataType::Real | DataType::Float4 => ParameterType::Real,
        DataType::Double(_) | DataType::DoublePrecision | DataType::Float8 | DataType::Float(_) => {
            ParameterType::Double
        }
        DataType::Decimal(_) | DataType::Numeric(_) | DataType::Dec(_) => ParameterType::Decimal,
        DataType::Bytea => ParameterType::Bytes,
        DataType::Date => ParameterType::Date,
        DataType::Time(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => ParameterType::Time,
        DataType::Timestamp(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            ParameterType::Timestamp
        }
        DataType::Timestamp(_, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => {
            ParameterType::TimestampWithTimeZone
        }
        DataType::Interval { .. } => ParameterType::Interval,
        DataType::Array(ArrayElemTypeDef::SquareBracket(item, _) | ArrayElemTypeDef::AngleBracket(item)) => {
            match item.as_ref() {
                DataType::Varchar(_) | DataType::Text | DataType::String(_) => ParameterType::Text.list()?,
                item => kind_of(item)?.list()?,
            }
        }
        _ => return None,
    })
}

pub(super) struct Bound<'a>(pub &'a [Option<Parameter>]);

impl VisitorMut for Bound<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        let Some((place, example)) = constant(expression) else { return ControlFlow::Continue(()) };
        let Expr::Value(ValueWithSpan { value: Value::Placeholder(name), .. }) = place else {
            return ControlFlow::Continue(());
        };
        let Some(given) = number(name).and_then(|number| self.0.get(number - 1)?.as_ref()) else {
            return ControlFlow::Continue(());
        };
        let is_null = given.value.is_none();
        let text = given.value.clone().unwrap_or_else(|| example.to_owned());
        *place = Expr::value(Value::SingleQuotedString(text));
        if is_null {
            *expression = null_of(std::mem::replace(expression, Expr::value(Value::Null)));
        }
        ControlFlow::Continue(())
    }

    /// After its parts, so that what is put in is not visited again.
    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        let Expr::Value(ValueWithSpan { value: Value::Placeholder(name), .. }) = expression else {
            return ControlFlow::Continue(());
        };
        let given = number(name).and_then(|number| self.0.get(number - 1)?.as_ref());
        if let Some(parameter) = given {
            *expression = parameter.expression();
        }
        ControlFlow::Continue(())
    }
}

/// Visits the queries of a statement that may have parameters.
fn visit_mut(statement: &mut Statement, bound: &mut Bound<'_>) {
    let _ = match &mut statement.kind {
        StatementKind::Query(query, _) => walk_mut(query, bound),
        StatementKind::Explain { statement, .. } | StatementKind::ExplainWhy(statement) => {
            visit_mut(statement, bound);
            ControlFlow::Continue(())
        }
        // A definition is kept as its text, which cannot have values from elsewhere.
        _ => ControlFlow::Continue(()),
    };
}
