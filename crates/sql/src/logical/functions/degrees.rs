//! `sind`, `cosd`, `tand`, `cotd`, `asind`, `acosd`, `atand` and `atan2d`: functions of angles in degrees, exact where the exact value is
//! known, as in PostgreSQL: `sind(30)` is 0.5.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Float64Array};
use datafusion::arrow::compute::binary;
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::ScalarUDF;

use super::plain_function::plain_function;

const ANGLE: &[&[DataType]] = &[&[DataType::Float64]];

/// Returns the functions.
pub(super) fn functions() -> impl Iterator<Item = ScalarUDF> {
    let of_two = plain_function(
        &["atan2d"],
        &[&[DataType::Float64, DataType::Float64]],
        DataType::Float64,
        |arguments| {
            let (y, x) =
                (arguments[0].as_primitive::<Float64Type>(), arguments[1].as_primitive::<Float64Type>());
            let angles: Float64Array = binary(y, x, |y: f64, x| y.atan2(x) / ATAN_1 * 45.0)?;
            Ok(Arc::new(angles))
        },
    );
    let function = |name: &'static str, compute| plain_function(&[name], ANGLE, DataType::Float64, compute);
    [
        function("sind", |arguments| of_angle("sind", sine, &arguments[0])),
        function("cosd", |arguments| of_angle("cosd", cosine, &arguments[0])),
        function("tand", |arguments| of_angle("tand", |angle| sine(angle) / cosine(angle), &arguments[0])),
        function("cotd", |arguments| of_angle("cotd", |angle| cosine(angle) / sine(angle), &arguments[0])),
        function("asind", |arguments| of_ratio("asind", arcsine, &arguments[0])),
        function("acosd", |arguments| of_ratio("acosd", |ratio| 90.0 - arcsine(ratio), &arguments[0])),
        function("atand", |arguments| {
            let values = arguments[0].as_primitive::<Float64Type>();
            let angles: Float64Array = values.unary(|value| value.atan() / ATAN_1 * 45.0);
            Ok(Arc::new(angles))
        }),
        of_two,
    ]
    .into_iter()
}

/// The arc tangent of 1, which is 45 degrees.
const ATAN_1: f64 = std::f64::consts::FRAC_PI_4;

fn of_angle(name: &str, compute: fn(f64) -> f64, angles: &ArrayRef) -> Result<ArrayRef> {
    let value = |angle: f64| {
        if angle.is_infinite() { exec_err!("{name} of an infinite angle") } else { Ok(compute(angle)) }
    };
    let values: Float64Array = angles.as_primitive::<Float64Type>().try_unary(value)?;
    Ok(Arc::new(values))
}

fn of_ratio(name: &str, compute: fn(f64) -> f64, ratios: &ArrayRef) -> Result<ArrayRef> {
    let value = |ratio: f64| {
        if ratio.abs() > 1.0 {
            exec_err!("{name} of {ratio}, which is not between -1 and 1")
        } else {
            Ok(compute(ratio))
        }
    };
    let values: Float64Array = ratios.as_primitive::<Float64Type>().try_unary(value)?;
    Ok(Arc::new(values))
}

/// The sine of an angle. Between 0 and 30 degrees it is scaled so that that of 30 is 0.5; the others follow from these.
fn sine(angle: f64) -> f64 {
    let angle = angle % 360.0;
    if angle < 0.0 {
        return -sine(-angle);
    }
    match angle {
        angle if angle > 180.0 => -sine(angle - 180.0),
        angle if angle > 90.0 => sine_to_90(180.0 - angle),
        angle => sine_to_90(angle),
    }
}

fn cosine(angle: f64) -> f64 {
    let angle = (angle % 360.0).abs();
    match angle {
        angle if angle > 270.0 => sine_to_90(angle - 270.0),
        angle if angle > 180.0 => -sine_to_90(270.0 - angle),
        angle if angle > 90.0 => -sine_to_90(angle - 90.0),
        angle => sine_to_90(90.0 - angle),
    }
}

fn sine_to_90(angle: f64) -> f64 {
    if angle <= 30.0 { scaled_sine(angle) } else { scaled_cosine(90.0 - angle) }
}

fn scaled_sine(angle: f64) -> f64 {
    angle.to_radians().sin() / 30_f64.to_radians().sin() / 2.0
}

/// The cosine of an angle between 0 and 60 degrees, so that that of 60 is 0.5.
fn scaled_cosine(angle: f64) -> f64 {
    let missing = |angle: f64| 1.0 - angle.to_radians().cos();
    1.0 - missing(angle) / missing(60.0) / 2.0
}

fn arcsine(ratio: f64) -> f64 {
    let size = ratio.abs();
    let angle = if size <= 0.5 {
        size.asin() / 0.5_f64.asin() * 30.0
    } else {
        90.0 - size.acos() / 0.5_f64.acos() * 60.0
    };
    angle.copysign(ratio)
}
