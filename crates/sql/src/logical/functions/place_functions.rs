//! Points and boxes in the plane under PostGIS's names. A point is a vector of two numbers, a box of four: the smallest x
//! and y, and the largest.

use std::sync::Arc;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, Float64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, LogicalPlanBuilder, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use tidemill_store::distance;

use super::vectors::{Vectors, append, is_vector, vector_type, vectors};
use crate::relations::point_column::POINT;

/// The functions.
pub(crate) fn functions() -> [ScalarUDF; 8] {
    use Kind::{Distance, DistanceWithin, Envelope, Intersects, Point, Within, X, Y};
    [Point, X, Y, Distance, DistanceWithin, Envelope, Within, Intersects].map(function)
}

/// The arguments of a function, from 0, that are single numbers.
pub(crate) fn number_arguments(function: &str) -> std::ops::Range<usize> {
    match function {
        "st_point" => 0..2,
        "st_makeenvelope" => 0..4,
        "st_dwithin" => 2..3,
        _ => 0..0,
    }
}

/// The plan of a view with a point for each row, unless a column has this name already.
pub(crate) fn with_point(plan: LogicalPlan, [x, y]: [usize; 2]) -> Result<LogicalPlan> {
    let columns: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
    if plan.schema().fields().iter().any(|field| field.name() == POINT) {
        return Ok(plan);
    }
    let point = function(Kind::Point).call(vec![columns[x].clone(), columns[y].clone()]).alias(POINT);
    LogicalPlanBuilder::from(plan).project(columns.into_iter().chain([point]))?.build()
}

/// The points of rows with these coordinates.
pub(crate) fn points(x: &ArrayRef, y: &ArrayRef) -> Result<ArrayRef> {
    let signature = Signature::any(Kind::Point.arguments(), Volatility::Immutable);
    PlaceFunction { kind: Kind::Point, signature }.column(&[ArrayRef::clone(x), ArrayRef::clone(y)])
}

fn function(kind: Kind) -> ScalarUDF {
    ScalarUDF::new_from_impl(PlaceFunction {
        kind,
        signature: Signature::any(kind.arguments(), Volatility::Immutable),
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Point,
    X,
    Y,
    Distance,
    DistanceWithin,
    Envelope,
    Within,
    Intersects,
}

impl Kind {
    fn arguments(self) -> usize {
        match self {
            Kind::X | Kind::Y => 1,
            Kind::Point | Kind::Distance | Kind::Within | Kind::Intersects => 2,
            Kind::DistanceWithin => 3,
            Kind::Envelope => 4,
        }
    }

    fn result(self) -> DataType {
        match self {
            Kind::Point | Kind::Envelope => vector_type(),
            Kind::X | Kind::Y | Kind::Distance => DataType::Float64,
            Kind::DistanceWithin | Kind::Within | Kind::Intersects => DataType::Boolean,
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct PlaceFunction {
    kind: Kind,
    signature: Signature,
}

fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric() || data_type.is_null()
}

impl ScalarUDFImpl for PlaceFunction {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Point => "st_point",
            Kind::X => "st_x",
            Kind::Y => "st_y",
            Kind::Distance => "st_distance",
            Kind::DistanceWithin => "st_dwithin",
            Kind::Envelope => "st_makeenvelope",
            Kind::Within => "st_within",
            Kind::Intersects => "st_intersects",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        let (fits, usage) = match self.kind {
            Kind::Point => (arguments.iter().all(is_number), "two numbers: st_point(x, y)"),
            Kind::Envelope => {
                (arguments.iter().all(is_number), "four numbers: st_makeenvelope(x_min, y_min, x_max, y_max)")
            }
            Kind::X => (arguments.iter().all(is_vector), "a point: st_x(st_point(x, y))"),
            Kind::Y => (arguments.iter().all(is_vector), "a point: st_y(st_point(x, y))"),
            Kind::Distance => {
                (arguments.iter().all(is_vector), "two points: st_distance(st_point(x, y), st_point(3, 4))")
            }
            Kind::DistanceWithin => (
                arguments[..2].iter().all(is_vector) && is_number(&arguments[2]),
                "two points and a distance: st_dwithin(st_point(x, y), st_point(3, 4), 10)",
            ),
            Kind::Within => (
                arguments.iter().all(is_vector),
                "a point and a box: st_within(st_point(x, y), st_makeenvelope(0, 0, 10, 10))",
            ),
            Kind::Intersects => (
                arguments.iter().all(is_vector),
                "a point and a box: st_intersects(st_point(x, y), st_makeenvelope(0, 0, 10, 10))",
            ),
        };
        if fits { Ok(self.kind.result()) } else { plan_err!("{} takes {usage}", self.name()) }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        Ok(ColumnarValue::Array(self.column(&arrays)?))
    }
}

impl PlaceFunction {
    fn column(&self, arrays: &[ArrayRef]) -> Result<ArrayRef> {
        let rows = arrays.first().map_or(0, |column| column.len());
        match self.kind {
            Kind::Point | Kind::Envelope => {
                let numbers = arrays.iter().map(Numbers::of).collect::<Result<Vec<_>>>()?;
                let mut made = vectors();
                for row in 0..rows {
                    let vector: Option<Vec<f64>> = numbers.iter().map(|column| column.at(row)).collect();
                    append(&mut made, vector.as_deref());
                }
                Ok(Arc::new(made.finish()))
            }
            Kind::X | Kind::Y => {
                let points = Points::of(&arrays[0], self)?;
                let coordinate = |row| {
                    points.at(row).map(|point| point.map(|(x, y)| if self.kind == Kind::X { x } else { y }))
                };
                let column: Float64Array = (0..rows).map(coordinate).collect::<Result<_>>()?;
                Ok(Arc::new(column))
            }
            Kind::Distance => {
                let (one, other) = (Points::of(&arrays[0], self)?, Points::of(&arrays[1], self)?);
                let between =
                    |row| Ok(one.at(row)?.zip(other.at(row)?).map(|(one, other)| distance(one, other)));
                let column: Float64Array = (0..rows).map(between).collect::<Result<_>>()?;
                Ok(Arc::new(column))
            }
            Kind::DistanceWithin => {
                let (one, other) = (Points::of(&arrays[0], self)?, Points::of(&arrays[1], self)?);
                let most = Numbers::of(&arrays[2])?;
                let is_within = |row| {
                    let both = one.at(row)?.zip(other.at(row)?);
                    Ok(both.zip(most.at(row)).map(|((one, other), most)| distance(one, other) <= most))
                };
                let column: BooleanArray = (0..rows).map(is_within).collect::<Result<_>>()?;
                Ok(Arc::new(column))
            }
            Kind::Within | Kind::Intersects => {
                let (points, boxes) = (Points::of(&arrays[0], self)?, Vectors::of(&arrays[1])?);
                let is_in = |row| -> Result<Option<bool>> {
                    let (Some((x, y)), Some(area)) = (points.at(row)?, boxes.at(row)) else {
                        return Ok(None);
                    };
                    let [x_min, y_min, x_max, y_max] = area else {
                        return exec_err!(
                            "{}() takes a box of 4 numbers, st_makeenvelope(x_min, y_min, x_max, y_max), not of {}",
                            self.name(),
                            area.len()
                        );
                    };
                    // As in PostGIS: a point on the edge intersects a box, and is not within it.
                    Ok(Some(match self.kind {
                        Kind::Within => *x_min < x && x < *x_max && *y_min < y && y < *y_max,
                        _ => *x_min <= x && x <= *x_max && *y_min <= y && y <= *y_max,
                    }))
                };
                let column: BooleanArray = (0..rows).map(is_in).collect::<Result<_>>()?;
                Ok(Arc::new(column))
            }
        }
    }
}

/// A column of numbers.
struct Numbers(Float64Array);

impl Numbers {
    fn of(column: &ArrayRef) -> Result<Numbers> {
        Ok(Numbers(cast(column, &DataType::Float64)?.as_primitive::<Float64Type>().clone()))
    }

    fn at(&self, row: usize) -> Option<f64> {
        self.0.is_valid(row).then(|| self.0.value(row))
    }
}

/// A column of points, for a function.
struct Points<'a> {
    vectors: Vectors,
    function: &'a PlaceFunction,
}

impl Points<'_> {
    fn of<'a>(column: &ArrayRef, function: &'a PlaceFunction) -> Result<Points<'a>> {
        Ok(Points { vectors: Vectors::of(column)?, function })
    }

    fn at(&self, row: usize) -> Result<Option<(f64, f64)>> {
        match self.vectors.at(row) {
            None => Ok(None),
            Some([x, y]) => Ok(Some((*x, *y))),
            Some(other) => {
                exec_err!("{}() takes points of 2 numbers, not of {}", self.function.name(), other.len())
            }
        }
    }
}
