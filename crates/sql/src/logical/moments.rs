//! When a condition on `now()` changes for a row: `at > now() - INTERVAL '1 minute'` does so a minute after `at`.

use datafusion::arrow::array::types::IntervalMonthDayNano;
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, ExprSchemable, Operator, cast, lit, when};
use tidemill_trees::nodes::Tree;

use super::datafusion_repairs::interval_lengths::LENGTH_OF_INTERVAL;
use super::functions::times::truncated_times;
use super::functions::{CURRENT_DATE, NOW, WINDOW_START, interval_ns, is_clock, length_ns, reads_clock};
use super::time_units::TimePart;
use crate::refusal::refuse;

const TIMESTAMP: DataType = DataType::Timestamp(TimeUnit::Nanosecond, None);

/// What a condition may be that is kept true while time passes.
pub(crate) const KEPT_TRUE: &str = "compare now() with a value of the row, as in at > now() - INTERVAL '1 minute' or \
    at + INTERVAL '1 month' > now(), in WHERE, HAVING or the ON of an inner join; AND, OR, NOT and BETWEEN combine \
    such comparisons";

/// A moment at which a condition on `now()` may change for a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Moment {
    /// A time, computed from the row; or an interval, before it is added to one.
    value: Expr,
    /// Whether the condition changes only behind this time, and not already at it.
    is_after: bool,
    /// The time, for people.
    pub text: String,
}

impl Moment {
    /// The first instant with the other value, as an expression over the row.
    pub fn instant(&self) -> Expr {
        let value = self.value.clone();
        cast(if self.is_after { value + interval(1) } else { value }, TIMESTAMP)
    }
}

/// Returns the moments at which a condition on `now()` may change for a row. Between two of them it is constant.
///
/// # Errors
/// If they are not known when the row comes.
pub(crate) fn moments(condition: &Expr, schema: &DFSchema) -> Result<Vec<Moment>> {
    let mut moments: Vec<Moment> = Vec::new();
    condition.look_through(|part| {
        if !reads_clock(part)? {
            return Ok(TreeNodeRecursion::Jump);
        }
        if let Some(found) = moments_of_comparisons(part, schema)? {
            for moment in found {
                if !moments.contains(&moment) {
                    moments.push(moment);
                }
            }
            return Ok(TreeNodeRecursion::Jump);
        }
        if is_clock(part) { Err(unknown_moments()) } else { Ok(TreeNodeRecursion::Continue) }
    })?;
    Ok(moments)
}

fn unknown_moments() -> DataFusionError {
    refuse("now() advances, and it is not known when this condition will change for a row", KEPT_TRUE)
}

/// The moments of what compares a function of the time that passes with a value of the row; `None` if it does not.
fn moments_of_comparisons(part: &Expr, schema: &DFSchema) -> Result<Option<Vec<Moment>>> {
    let comparisons: Vec<(&Expr, Operator, &Expr)> = match part {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => vec![(left, *op, right)],
        Expr::Between(Between { expr, low, high, .. }) => {
            vec![(expr, Operator::GtEq, low), (expr, Operator::LtEq, high)]
        }
        _ => return Ok(None),
    };
    let mut moments = Vec::new();
    for (left, operator, right) in comparisons {
        let (clock, operator, given) = match (reads_clock(left)?, reads_clock(right)?) {
            (false, false) => continue,
            (true, false) => (left, Some(operator), right),
            (false, true) => (right, operator.swap(), left),
            (true, true) => return Ok(None),
        };
        let Some(are_after) = operator.and_then(changes_after) else { return Ok(None) };
        for is_after in are_after {
            let Some(value) = as_value(given, schema)? else { return Ok(None) };
            let moment = Moment { text: given.to_string(), value, is_after: *is_after };
            let Some(moment) = moment.of_now(clock, schema)? else { return Ok(None) };
            moments.push(moment);
        }
    }
    Ok(Some(moments))
}

/// Whether a comparison of what grows with a value changes once it has reached the value, or once it is behind it, or both.
fn changes_after(operator: Operator) -> Option<&'static [bool]> {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    match operator {
        Lt | GtEq => Some(&[false]),
        Gt | LtEq => Some(&[true]),
        Eq | NotEq | IsDistinctFrom | IsNotDistinctFrom => Some(&[false, true]),
        _ => None,
    }
}

/// A value of the row as a time, or as the length of an interval; `None` if it is neither.
fn as_value(value: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    Ok(match (value.get_type(schema)?, value) {
        (data_type, _) if is_time(&data_type) => Some(as_time(value, &data_type)),
        (_, Expr::Literal(ScalarValue::Decimal128(Some(length_ns), _, 0), _)) => {
            i64::try_from(*length_ns).ok().map(interval)
        }
        (_, Expr::Literal(length, _)) => length_ns(length).ok().map(interval),
        _ => None,
    })
}

fn is_time(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(_, _) | DataType::Date32)
}

fn as_time(value: &Expr, data_type: &DataType) -> Expr {
    if *data_type == TIMESTAMP { value.clone() } else { cast(value.clone(), TIMESTAMP) }
}

fn interval(length_ns: i64) -> Expr {
    lit(ScalarValue::new_interval_mdn(0, 0, length_ns))
}

/// A moment is first that at which something that grows with time reaches a value, or is behind it.
impl Moment {
    /// The moment at which `now()` makes a function of it reach the value; `None` if the function does not grow steadily.
    fn of_now(self, clock: &Expr, schema: &DFSchema) -> Result<Option<Moment>> {
        match clock {
            Expr::Alias(alias) => self.of_now(&alias.expr, schema),
            Expr::ScalarFunction(call) => self.of_function(call, schema),
            Expr::Cast(cast) => {
                let (from, to) = (cast.expr.get_type(schema)?, cast.field.data_type());
                match cast_of(&from, to) {
                    None => Ok(None),
                    Some(None) => self.of_now(&cast.expr, schema),
                    Some(Some(unit)) => self.of_truncated(unit)?.of_now(&cast.expr, schema),
                }
            }
            Expr::BinaryExpr(sum) => self.of_sum(sum, schema),
            _ => Ok(None),
        }
    }

    /// Of a sum or a difference of it and something else.
    fn of_sum(self, sum: &BinaryExpr, schema: &DFSchema) -> Result<Option<Moment>> {
        let BinaryExpr { left, op, right } = sum;
        let (clock, other, is_left) =
            if reads_clock(left)? { (left, right, true) } else { (right, left, false) };
        if reads_clock(other)? {
            return Ok(None);
        }
        let data_type = other.get_type(schema)?;
        let is_time = is_time(&data_type);
        let (term, name) = match other.as_ref() {
            other if is_time => (as_time(other, &data_type), other.to_string()),
            Expr::Literal(length, _) => match length_ns(length) {
                Ok(length_ns) => (interval(length_ns), interval(length_ns).to_string()),
                Err(_) => return Ok(None),
            },
            _ => return Ok(None),
        };
        let Moment { value, is_after, text } = self;
        let moment = match (op, is_left, is_time) {
            (Operator::Plus, _, false) => {
                Moment { value: value - term, is_after, text: format!("{text} - {name}") }
            }
            (Operator::Minus, true, false) => {
                Moment { value: value + term, is_after, text: format!("{text} + {name}") }
            }
            // Of a time, the value is an interval.
            (Operator::Minus, true, true) => {
                let text = format!("{name} + {value}");
                Moment { value: term + value, is_after, text }
            }
            // What is subtracted makes the difference smaller.
            (Operator::Minus, false, true) => {
                let text = format!("{name} - {value}");
                Moment { value: term - value, is_after: !is_after, text }
            }
            _ => return Ok(None),
        };
        moment.of_now(clock, schema)
    }

    fn of_function(self, call: &ScalarFunction, schema: &DFSchema) -> Result<Option<Moment>> {
        match (call.func.name(), call.args.as_slice()) {
            (NOW, []) => Ok(Some(self)),
            (CURRENT_DATE, []) => self.of_truncated(TimePart::Day).map(Some),
            (LENGTH_OF_INTERVAL, [length]) => self.of_now(length, schema),
            ("date_trunc", [Expr::Literal(unit, _), time]) => {
                let unit = unit.try_as_str().flatten().and_then(TimePart::named);
                let Some(unit) = unit.filter(|unit| unit.truncates()) else { return Ok(None) };
                self.of_truncated(unit)?.of_now(time, schema)
            }
            (WINDOW_START, [time, Expr::Literal(size, _)]) => {
                let size_ns = interval_ns(size)?;
                let start = super::window_start().call(vec![self.value.clone(), lit(size.clone())]);
                let step = (interval(size_ns), "window");
                self.of_steps(start, step)?.of_now(time, schema)
            }
            _ => Ok(None),
        }
    }

    /// Of times that are truncated to a unit.
    fn of_truncated(self, unit: TimePart) -> Result<Moment> {
        let start = truncated_times::function().call(vec![lit(unit.name()), self.value.clone()]);
        let length = lit(ScalarValue::IntervalMonthDayNano(Some(length_of(unit))));
        self.of_steps(start, (length, unit.name()))
    }

    /// Of times that stay until they reach the next step: they reach a value with the first step that is not before it, and are behind
    /// it with the next one.
    fn of_steps(self, start: Expr, (length, name): (Expr, &str)) -> Result<Moment> {
        let Moment { value, is_after, text } = self;
        let next = start.clone() + length;
        let (value, text) = if is_after {
            (next, format!("the {name} after {text}"))
        } else {
            (
                when(start.eq(value.clone()), value).otherwise(next)?,
                format!("the first {name} from {text} on"),
            )
        };
        Ok(Moment { value, is_after: false, text })
    }
}

/// To what a cast of a time truncates it: `Some(None)` if it keeps it; `None` if its result does not grow steadily with the time.
#[expect(clippy::option_option)]
fn cast_of(from: &DataType, to: &DataType) -> Option<Option<TimePart>> {
    let is_utc = |data_type: &DataType| match data_type {
        DataType::Timestamp(_, Some(zone)) => ["UTC", "+00:00"].contains(&zone.as_ref()),
        DataType::Timestamp(_, None) | DataType::Date32 => true,
        _ => false,
    };
    if !is_utc(from) || !is_utc(to) {
        // Only lengths are left, which stay as long as they are.
        let is_length =
            |data_type: &DataType| matches!(data_type, DataType::Interval(_) | DataType::Duration(_));
        return (is_length(from) && is_length(to)).then_some(None);
    }
    Some(match to {
        DataType::Date32 => Some(TimePart::Day),
        DataType::Timestamp(TimeUnit::Second, _) => Some(TimePart::Second),
        DataType::Timestamp(TimeUnit::Millisecond, _) => Some(TimePart::Millisecond),
        DataType::Timestamp(TimeUnit::Microsecond, _) => Some(TimePart::Microsecond),
        _ => None,
    })
}

fn length_of(unit: TimePart) -> IntervalMonthDayNano {
    let (months, days, nanoseconds) = match unit {
        TimePart::Microsecond => (0, 0, 1_000),
        TimePart::Millisecond => (0, 0, 1_000_000),
        TimePart::Second => (0, 0, 1_000_000_000),
        TimePart::Minute => (0, 0, 60_000_000_000),
        TimePart::Hour => (0, 0, 3_600_000_000_000),
        TimePart::Day => (0, 1, 0),
        TimePart::Week => (0, 7, 0),
        TimePart::Month => (1, 0, 0),
        TimePart::Quarter => (3, 0, 0),
        TimePart::Year => (12, 0, 0),
        TimePart::Decade => (120, 0, 0),
        TimePart::Century => (1_200, 0, 0),
        TimePart::Millennium => (12_000, 0, 0),
        _ => (0, 0, 1),
    };
    IntervalMonthDayNano { months, days, nanoseconds }
}
