//! What a condition says about the time, the place and the key of rows.

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::array::{Array, AsArray, RecordBatchOptions};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type, Schema};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use tidemill_engine::Cut;
use tidemill_store::{Area, Selection, StoreConfig};

use super::divider::Divider;
use crate::expressions::compiled::Compiled;

/// What a condition says. Rows that it excludes may be selected nevertheless, so it is tested again afterwards.
#[derive(Default)]
pub(super) struct Conditions {
    pub selection: Selection,
    /// Whether the selection is all that the condition says.
    pub is_exact: bool,
}

/// The bounds of a place, while they are collected.
struct Bounds {
    area: Area,
    /// Whether rows without a coordinate are excluded: an upper bound excludes them, a lower one does not, because NaN is the
    /// largest number.
    excludes_nan: [bool; 2],
}

/// What a condition says about the rows of a store. `divided_by` is the expression that divides them among fragments.
pub(super) fn conditions_of(
    condition: Option<&Expr>,
    config: &StoreConfig,
    divided_by: Option<&Expr>,
) -> Conditions {
    let mut found = ConditionParts {
        config,
        divider: Divider::new(config, divided_by),
        keys: vec![None; config.key.as_ref().map_or(0, Vec::len)],
        time: None,
        bounds: Bounds { area: Area::EVERYWHERE, excludes_nan: [false; 2] },
    };
    let parts = condition.map_or_else(Vec::new, |condition| split_conjunction(condition));
    let mut is_exact = true;
    for part in parts {
        is_exact &= found.take(part);
    }
    let mut selection = Selection::default();
    let key: Option<Vec<_>> = found.keys.iter().cloned().collect();
    match key.filter(|key| !key.is_empty()) {
        Some(key) => {
            let values = key.iter().map(|value| value.to_array_of_size(1)).collect::<Result<Vec<_>, _>>();
            is_exact &= values.is_ok();
            selection.key = values.ok();
        }
        None => is_exact &= found.keys.iter().all(Option::is_none),
    }
    selection.time = found.time;
    selection.fragment = found.divider.and_then(|divider| divider.fragment());
    if found.bounds.excludes_nan == [true; 2] {
        selection.area = Some(found.bounds.area);
    }
    Conditions { selection, is_exact }
}

struct ConditionParts<'a> {
    config: &'a StoreConfig,
    divider: Option<Divider<'a>>,
    keys: Vec<Option<ScalarValue>>,
    time: Option<(i64, i64)>,
    bounds: Bounds,
}

impl ConditionParts<'_> {
    /// Takes one condition into account; whether nothing of it is left.
    fn take(&mut self, part: &Expr) -> bool {
        match part {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                if let Some(value) = constant(right) {
                    return self.compared(left, *op, &value);
                }
                let swapped = op.swap();
                match (constant(left), swapped) {
                    (Some(value), Some(op)) => self.compared(right, op, &value),
                    _ => false,
                }
            }
            Expr::Between(between) if !between.negated => {
                let bounds = [(Operator::GtEq, &between.low), (Operator::LtEq, &between.high)];
                bounds.into_iter().fold(true, |is_exact, (op, bound)| {
                    let value = constant(bound);
                    value.is_some_and(|value| self.compared(&between.expr, op, &value)) && is_exact
                })
            }
            Expr::ScalarFunction(call) => self.called(call),
            _ => false,
        }
    }

    fn compared(&mut self, what: &Expr, op: Operator, value: &ScalarValue) -> bool {
        if value.is_null() {
            return false;
        }
        if let Some(divider) = self.divider.as_mut().filter(|_| op == Operator::Eq) {
            divider.is_equal(what, value);
        }
        if let Expr::ScalarFunction(call) = what
            && call.func.name() == "st_distance"
        {
            return self.at_distance(call, op, value);
        }
        let Some(column) = column_of(what, self.config) else { return false };
        let is_same_type = value.data_type() == *self.config.schema.field(column).data_type();
        if self.config.time == Some(column) && is_same_type && self.at_time(op, value) {
            return true;
        }
        let is_exact = self.with_key(column, op, value, is_same_type);
        self.with_coordinate(column, op, value);
        is_exact
    }

    fn with_key(&mut self, column: usize, op: Operator, value: &ScalarValue, is_same_type: bool) -> bool {
        let keys = self.config.key.iter().flatten();
        let Some(at) = keys.enumerate().find(|(_, key)| **key == column).map(|(at, _)| at) else {
            return false;
        };
        // Floating-point numbers that are equal may have different bits.
        if op != Operator::Eq || !is_same_type || value.data_type().is_floating() {
            return false;
        }
        if self.keys[at].as_ref().is_some_and(|known| known != value) {
            return false;
        }
        self.keys[at] = Some(value.clone());
        true
    }

    fn at_time(&mut self, op: Operator, value: &ScalarValue) -> bool {
        let Ok(ScalarValue::Int64(Some(value))) = value.cast_to(&DataType::Int64) else { return false };
        let (from, to) = match op {
            Operator::Eq => (value, value),
            Operator::Lt if value > i64::MIN => (i64::MIN, value - 1),
            Operator::LtEq => (i64::MIN, value),
            Operator::Gt if value < i64::MAX => (value + 1, i64::MAX),
            Operator::GtEq => (value, i64::MAX),
            _ => return false,
        };
        let known = self.time.unwrap_or((i64::MIN, i64::MAX));
        self.time = Some((known.0.max(from), known.1.min(to)));
        true
    }

    fn with_coordinate(&mut self, column: usize, op: Operator, value: &ScalarValue) {
        let Some(point) = self.config.point else { return };
        let Some(value) = number(value) else { return };
        for axis in (0..2).filter(|axis| point[*axis] == column) {
            let range = if axis == 0 { &mut self.bounds.area.x } else { &mut self.bounds.area.y };
            // A bound may be rounded when it becomes a floating-point number.
            let (least, most) = (value.next_down(), value.next_up());
            match op {
                Operator::Eq => *range = (range.0.max(least), range.1.min(most)),
                Operator::Lt | Operator::LtEq => range.1 = range.1.min(most),
                Operator::Gt | Operator::GtEq => range.0 = range.0.max(least),
                _ => continue,
            }
            self.bounds.excludes_nan[axis] |= !matches!(op, Operator::Gt | Operator::GtEq);
        }
    }

    fn at_distance(&mut self, call: &ScalarFunction, op: Operator, value: &ScalarValue) -> bool {
        let is_upper = matches!(op, Operator::Lt | Operator::LtEq | Operator::Eq);
        if let (true, Some(to), Some(most)) = (is_upper, distance_to(&call.args, self.config), number(value))
        {
            self.within(Area::around(to.0, to.1, most));
        }
        false
    }

    fn called(&mut self, call: &ScalarFunction) -> bool {
        let area = match call.func.name() {
            "st_dwithin" => {
                let most = call.args.get(2).and_then(constant).and_then(|most| number(&most));
                distance_to(&call.args, self.config).zip(most).map(|((x, y), most)| Area::around(x, y, most))
            }
            "st_within" | "st_intersects" => match call.args.as_slice() {
                [point, area] if is_point(point, self.config) => {
                    let area = constant(area).and_then(|area| numbers(&area));
                    area.and_then(|area| match area.as_slice() {
                        [x_min, y_min, x_max, y_max] => {
                            Some(Area { x: (*x_min, *x_max), y: (*y_min, *y_max) })
                        }
                        _ => None,
                    })
                }
                _ => None,
            },
            _ => None,
        };
        if let Some(area) = area {
            self.within(area);
        }
        false
    }

    fn within(&mut self, area: Area) {
        self.bounds.area = self.bounds.area.and(&area);
        self.bounds.excludes_nan = [true; 2];
    }
}

/// The constant point from which distances are measured, if the other one is the rows' point.
pub(super) fn distance_to(arguments: &[Expr], config: &StoreConfig) -> Option<(f64, f64)> {
    let [one, other] = arguments.get(..2)? else { return None };
    let to = match (is_point(one, config), is_point(other, config)) {
        (true, false) => other,
        (false, true) => one,
        _ => return None,
    };
    match numbers(&constant(to)?)?.as_slice() {
        [x, y] => Some((*x, *y)),
        _ => None,
    }
}

/// Whether an expression is the point of a row: `st_point(x, y)` or `[x, y]`.
fn is_point(expression: &Expr, config: &StoreConfig) -> bool {
    let (Expr::ScalarFunction(call), Some(point)) = (without_alias(expression), config.point) else {
        return false;
    };
    let columns: Vec<_> = call.args.iter().map(|column| coordinate_of(column, config)).collect();
    matches!(call.func.name(), "st_point" | "make_array") && columns == point.map(Some)
}

fn coordinate_of(expression: &Expr, config: &StoreConfig) -> Option<usize> {
    match without_alias(expression) {
        Expr::Cast(cast) if *cast.field.data_type() == DataType::Float64 => column_of(&cast.expr, config),
        other => column_of(other, config),
    }
}

/// The index of a column of the store.
fn column_of(expression: &Expr, config: &StoreConfig) -> Option<usize> {
    let Expr::Column(column) = without_alias(expression) else { return None };
    config.schema.index_of(column.name()).ok()
}

pub(super) fn without_alias(expression: &Expr) -> &Expr {
    match expression {
        Expr::Alias(alias) => without_alias(&alias.expr),
        other => other,
    }
}

/// The value of an expression that reads no column.
fn constant(expression: &Expr) -> Option<ScalarValue> {
    if let Expr::Literal(value, _) = expression {
        return Some(value.clone());
    }
    let is_closed = |part: &Expr| {
        !matches!(part, Expr::ScalarSubquery(_) | Expr::OuterReferenceColumn(..) | Expr::Placeholder(_))
    };
    let mut is_constant = expression.column_refs().is_empty();
    let _ = tidemill_trees::nodes::Tree::look_through(expression, |part: &Expr| {
        is_constant &= is_closed(part);
        Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
    });
    if !is_constant {
        return None;
    }
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(Schema::empty().into(), Vec::new(), &options).ok()?;
    let value = Compiled::new(expression, &DFSchema::empty()).ok()?.values(&row, &Cut::first()).ok()?;
    ScalarValue::try_from_array(&value, 0).ok()
}

fn number(value: &ScalarValue) -> Option<f64> {
    match value.cast_to(&DataType::Float64) {
        Ok(ScalarValue::Float64(Some(value))) if !value.is_nan() => Some(value),
        _ => None,
    }
}

/// The numbers of a list.
fn numbers(value: &ScalarValue) -> Option<Vec<f64>> {
    let list = value.to_array().ok()?;
    let items = match list.data_type() {
        DataType::List(_) => list.as_list::<i32>().value(0),
        DataType::LargeList(_) => list.as_list::<i64>().value(0),
        DataType::FixedSizeList(..) => list.as_fixed_size_list().value(0),
        _ => return None,
    };
    let items = cast(&items, &DataType::Float64).ok()?;
    let items = items.as_primitive::<Float64Type>();
    (items.null_count() == 0).then(|| items.values().to_vec())
}
