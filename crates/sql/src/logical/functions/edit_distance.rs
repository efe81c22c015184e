//! `levenshtein(one, other)` that ends when its statement does. DataFusion's (55.2) compares all characters of two texts before anybody can
//! interrupt it, which takes a second for 20 KB.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};

use crate::planning_limits::go_on;

/// So many pairs of characters are compared between two looks at whether the result is still wanted.
const PAIRS_AT_ONCE: usize = 1 << 20;

/// DataFusion's function, computed here.
pub(crate) fn levenshtein(function: &Arc<ScalarUDF>) -> ScalarUDF {
    ScalarUDF::new_from_impl(Levenshtein { planned: Arc::clone(function) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Levenshtein {
    /// Knows the types.
    planned: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for Levenshtein {
    fn name(&self) -> &str {
        self.planned.name()
    }

    fn aliases(&self) -> &[String] {
        self.planned.aliases()
    }

    fn signature(&self) -> &Signature {
        self.planned.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.planned.return_type(arguments)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let texts = |array: &ArrayRef| cast(array, &DataType::LargeUtf8);
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let arrays = arrays.iter().map(texts).collect::<std::result::Result<Vec<_>, _>>()?;
        let (one, other) = (arrays[0].as_string::<i64>(), arrays[1].as_string::<i64>());
        let pairs = one.iter().zip(other.iter());
        let distances = pairs.map(|pair| match pair {
            (Some(one), Some(other)) => distance(one, other).map(|distance| Some(distance as i64)),
            _ => Ok(None),
        });
        let distances = Arc::new(distances.collect::<Result<Int64Array>>()?) as ArrayRef;
        let distances = cast(&distances, args.return_field.data_type())?;
        Ok(if is_constant && !distances.is_empty() {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&distances, 0)?)
        } else {
            ColumnarValue::Array(distances)
        })
    }
}

/// How many characters have to be inserted, deleted or replaced to make one text of the other.
fn distance(one: &str, other: &str) -> Result<usize> {
    let other: Vec<char> = other.chars().collect();
    // From what was read of the first text to each beginning of the other.
    let mut distances: Vec<usize> = (0..=other.len()).collect();
    let mut compared = 0;
    for (row, letter) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut distances[0], row + 1);
        for (column, with) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *with);
            diagonal = distances[column + 1];
            distances[column + 1] = replaced.min(diagonal + 1).min(distances[column] + 1);
        }
        compared += other.len();
        if compared >= PAIRS_AT_ONCE {
            go_on()?;
            compared = 0;
        }
    }
    Ok(distances[other.len()])
}

#[cfg(test)]
mod tests {
    use tidemill_engine::interruption;
    use tidemill_testing::random::Random;

    use super::*;

    /// By definition, without what was computed before.
    fn recursive(one: &[char], other: &[char]) -> usize {
        match (one, other) {
            ([], rest) | (rest, []) => rest.len(),
            ([first, one @ ..], [second, other @ ..]) if first == second => recursive(one, other),
            ([_, shorter_one @ ..], [_, shorter_other @ ..]) => {
                let least = recursive(shorter_one, other).min(recursive(one, shorter_other));
                1 + least.min(recursive(shorter_one, shorter_other))
            }
        }
    }

    #[test]
    fn the_distance_is_that_of_the_definition() {
        let mut random = Random::new(7);
        for _ in 0..300 {
            let mut text = || {
                let length = random.below(7);
                (0..length).map(|_| random.one_of(&['a', 'b', 'ü'])).collect::<Vec<char>>()
            };
            let (one, other) = (text(), text());
            let texts = [&one, &other].map(|letters| letters.iter().collect::<String>());
            assert_eq!(distance(&texts[0], &texts[1]).unwrap(), recursive(&one, &other), "{texts:?}");
        }
        assert_eq!(distance("kitten", "sitting").unwrap(), 3);
    }

    #[test]
    fn a_long_comparison_ends_when_its_query_does() {
        let texts = ["x".repeat(100_000), "y".repeat(100_000)];
        let _until = interruption::interruptible(|| true);
        let ended = distance(&texts[0], &texts[1]).unwrap_err();
        assert!(crate::limit_reached::stops(&ended).is_some(), "{ended}");
    }
}
