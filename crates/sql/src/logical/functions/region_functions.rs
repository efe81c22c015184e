//! Regions of space to route by. `point_quad(points)` and `kd_tree(points, levels)` divide space according to past
//! points; `quad_region(splits, point)` and `kd_region(splits, point)` return the region that contains a point.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, ListArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Float64Type, Int64Type};
use datafusion::common::{DataFusionError, Result, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use tidemill_engine::Cause;
use tidemill_split::spatial::{Cuts, KdTree, PointQuad, Regions};

use super::vectors::{Vectors, append, is_vector, vector_type, vectors};

/// The functions.
pub(crate) fn functions() -> [ScalarUDF; 4] {
    let divides =
        [Shape::Quad, Shape::KdTree].map(|shape| ScalarUDF::new_from_impl(DivideFunction::new(shape)));
    let locates =
        [Shape::Quad, Shape::KdTree].map(|shape| ScalarUDF::new_from_impl(LocateFunction::new(shape)));
    let [quad, tree] = divides;
    let [quad_region, kd_region] = locates;
    [quad, tree, quad_region, kd_region]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Shape {
    Quad,
    KdTree,
}

/// `point_quad(points)`, `kd_tree(points, levels [, least])`: where space is split.
#[derive(Debug, PartialEq, Eq, Hash)]
struct DivideFunction {
    shape: Shape,
    signature: Signature,
}

impl DivideFunction {
    fn new(shape: Shape) -> Self {
        let arguments = match shape {
            Shape::Quad => TypeSignature::Any(1),
            Shape::KdTree => TypeSignature::OneOf(vec![TypeSignature::Any(2), TypeSignature::Any(3)]),
        };
        DivideFunction { shape, signature: Signature::new(arguments, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for DivideFunction {
    fn name(&self) -> &str {
        match self.shape {
            Shape::Quad => "point_quad",
            Shape::KdTree => "kd_tree",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        let are_points = match arguments.first() {
            Some(DataType::List(item) | DataType::LargeList(item)) => is_vector(item.data_type()),
            other => other.is_some_and(DataType::is_null),
        };
        if are_points && arguments[1..].iter().all(|argument| argument.is_numeric() || argument.is_null()) {
            Ok(vector_type())
        } else {
            plan_err!(
                "{} takes points, DOUBLE[][]{}: (SELECT {}(array_agg([x, y]){}) FROM history)",
                self.name(),
                if self.shape == Shape::Quad { "" } else { ", and the number of levels" },
                self.name(),
                if self.shape == Shape::Quad { "" } else { ", 4" }
            )
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let points = cast(&arrays[0], &DataType::List(Arc::new(Field::new_list_field(vector_type(), true))))?;
        let points: &ListArray = points.as_list();
        let levels = arrays.get(1).map(|levels| cast(levels, &DataType::Int64)).transpose()?;
        let least = arrays.get(2).map(|least| cast(least, &DataType::Float64)).transpose()?;
        let mut made = vectors();
        for row in 0..points.len() {
            let splits = if points.is_valid(row) {
                self.splits(&points.value(row), row, levels.as_ref(), least.as_ref())?
            } else {
                None
            };
            append(&mut made, splits.as_deref());
        }
        Ok(ColumnarValue::Array(Arc::new(made.finish())))
    }
}

impl DivideFunction {
    /// The splits of the space of one row's points. Points that lack a coordinate do not count.
    fn splits(
        &self,
        points: &ArrayRef,
        row: usize,
        levels: Option<&ArrayRef>,
        least: Option<&ArrayRef>,
    ) -> Result<Option<Vec<f64>>> {
        let points = Vectors::of(points)?;
        let points: Vec<&[f64]> = (0..points.len()).filter_map(|point| points.at(point)).collect();
        if points.windows(2).any(|pair| pair[0].len() != pair[1].len()) {
            return exec_err!("{}() takes points with the same number of coordinates", self.name());
        }
        if self.shape == Shape::Quad {
            return Ok(Some(PointQuad::from_points(&points).splits().to_vec()));
        }
        let number = |values: &Int64Array| values.is_valid(row).then(|| values.value(row));
        let Some(levels) = levels.and_then(|levels| number(levels.as_primitive::<Int64Type>())) else {
            return Ok(None);
        };
        let Ok(levels @ 0..=16) = u32::try_from(levels) else {
            return exec_err!("kd_tree() takes 0 to 16 levels, found {levels}");
        };
        let share = |values: &Float64Array| values.is_valid(row).then(|| values.value(row));
        let least = least.and_then(|least| share(least.as_primitive::<Float64Type>()));
        let cuts = least.map_or(Cuts::Median, |least| Cuts::Sparse { least });
        Ok(Some(KdTree::from_points(&points, levels, cuts).splits().to_vec()))
    }
}

/// `quad_region(splits, point)`, `kd_region(splits, point)`: the number of the region that contains a point, from 0.
#[derive(Debug, PartialEq, Eq, Hash)]
struct LocateFunction {
    shape: Shape,
    signature: Signature,
}

impl LocateFunction {
    fn new(shape: Shape) -> Self {
        LocateFunction { shape, signature: Signature::any(2, Volatility::Immutable) }
    }

    /// The regions for given splits. Without splits there is one region.
    fn regions(&self, splits: Option<&[f64]>, dimensions: usize) -> Result<Box<dyn Regions>, Cause> {
        let splits = splits.unwrap_or_default();
        match self.shape {
            Shape::Quad if splits.is_empty() || splits.len() == dimensions => {
                Ok(Box::new(PointQuad::from_splits(splits)))
            }
            Shape::Quad => Err(Cause::user(format!(
                "quad_region() got a point with {dimensions} coordinates, but the regions have {}",
                splits.len()
            ))),
            Shape::KdTree => match KdTree::from_splits(dimensions, splits) {
                Some(tree) => Ok(Box::new(tree)),
                None => Err(Cause::user("kd_region() takes the splits that kd_tree() returned")),
            },
        }
    }
}

impl ScalarUDFImpl for LocateFunction {
    fn name(&self) -> &str {
        match self.shape {
            Shape::Quad => "quad_region",
            Shape::KdTree => "kd_region",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        if arguments.iter().all(is_vector) {
            Ok(DataType::Int64)
        } else {
            plan_err!("{0} takes splits and a point: {0}(splits, [x, y])", self.name())
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let points = Vectors::of(&args.args[1].to_array(args.number_rows)?)?;
        // Splits are usually the same for all rows; then they are parsed only once.
        let splits = match &args.args[0] {
            ColumnarValue::Scalar(splits) => Vectors::of(&splits.to_array()?)?,
            ColumnarValue::Array(splits) => Vectors::of(splits)?,
        };
        let mut made: Option<((usize, usize), Box<dyn Regions>)> = None;
        let region = |row: usize| {
            let Some(point) = points.at(row) else { return Ok(None) };
            let key = (if splits.len() == 1 { 0 } else { row }, point.len());
            if made.as_ref().is_none_or(|(known, _)| *known != key) {
                made = Some((key, self.regions(splits.at(key.0), point.len())?));
            }
            Ok(made.as_ref().map(|(_, regions)| i64::from(regions.region(point))))
        };
        let regions: Result<Int64Array, Cause> = (0..points.len()).map(region).collect();
        let regions = regions.map_err(|cause| DataFusionError::Execution(cause.to_string()))?;
        Ok(ColumnarValue::Array(Arc::new(regions)))
    }
}
