//! Expressions over a single dictionary column: computed once per value of the dictionary instead of once per row.

use std::sync::Arc;

use datafusion::arrow::array::{
    AnyDictionaryArray, Array, ArrayRef, AsArray, BooleanArray, RecordBatch, make_array, new_empty_array,
};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{DataType, Field, Int8Type, Schema};
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;

/// A dictionary must have this many times fewer values than a batch has rows for this to be worthwhile.
const ROWS_PER_VALUE: usize = 4;

/// An expression over a dictionary, expressed over a batch of that column alone.
#[derive(Clone, Debug)]
pub(crate) struct OverDictionary {
    /// The index of the column.
    pub column: usize,
    /// The expression, with the column at index 0.
    pub expression: Arc<dyn PhysicalExpr>,
}

impl OverDictionary {
    /// One value per row; `None` if this is not worthwhile for these rows, or fails for a value that may not even occur
    /// in them.
    pub fn values(&self, rows: &RecordBatch) -> Option<ArrayRef> {
        let column = rows.column(self.column);
        let dictionary = column.as_any_dictionary_opt()?;
        let values = dictionary.values().len();
        if column.null_count() > 0 || values == 0 || rows.num_rows() < values * ROWS_PER_VALUE {
            return None;
        }
        let each = each_value_once(dictionary)?;
        let schema = Schema::new(vec![Field::new("value", column.data_type().clone(), true)]);
        let batch = RecordBatch::try_new(Arc::new(schema), vec![each]).ok()?;
        let computed = self.expression.evaluate(&batch).and_then(|value| value.into_array(values)).ok()?;
        by_keys(&computed, dictionary).ok()
    }
}

/// The dictionary with one row for each of its values.
fn each_value_once(dictionary: &dyn AnyDictionaryArray) -> Option<ArrayRef> {
    let keys = datafusion::arrow::array::Int32Array::from_iter_values(0..dictionary.values().len() as i32);
    let keys = datafusion::arrow::compute::cast(&keys, dictionary.keys().data_type()).ok()?;
    let data = dictionary.to_data().into_builder();
    let keys = keys.to_data();
    let data = data.len(keys.len()).offset(keys.offset()).buffers(keys.buffers().to_vec()).nulls(None);
    data.build().ok().map(make_array)
}

/// The value computed for each row's key.
fn by_keys(computed: &ArrayRef, dictionary: &dyn AnyDictionaryArray) -> Result<ArrayRef> {
    let keys = dictionary.keys();
    if keys.is_empty() {
        return Ok(new_empty_array(computed.data_type()));
    }
    if computed.data_type() == &DataType::Boolean
        && computed.null_count() == 0
        && let Some(keys) = keys.as_primitive_opt::<Int8Type>()
    {
        return Ok(Arc::new(chosen(computed.as_boolean(), keys.values())));
    }
    Ok(take(computed, keys, None)?)
}

/// The values computed for some small keys, from a table that fits a cache line.
fn chosen(computed: &BooleanArray, keys: &[i8]) -> BooleanArray {
    let mut table = [false; 256];
    for (key, entry) in table.iter_mut().take(computed.len()).enumerate() {
        *entry = computed.value(key);
    }
    let buffer = BooleanBuffer::collect_bool(keys.len(), |row| table[keys[row] as u8 as usize]);
    BooleanArray::new(buffer, None)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{DictionaryArray, StringArray};
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
    use datafusion::scalar::ScalarValue;

    use super::*;

    #[test]
    fn each_row_has_the_value_of_its_key() {
        let words: DictionaryArray<Int8Type> =
            (0..100).map(|row| ["view", "click", "buy"][row % 3]).collect();
        let column: ArrayRef = Arc::new(words.clone());
        let rows = RecordBatch::try_from_iter([("kind", column)]).unwrap().slice(1, 90);
        let literal = ScalarValue::Dictionary(Box::new(DataType::Int8), Box::new(ScalarValue::from("click")));
        let expression =
            BinaryExpr::new(Arc::new(Column::new("kind", 0)), Operator::Eq, Arc::new(Literal::new(literal)));
        let over = OverDictionary { column: 0, expression: Arc::new(expression) };
        let computed = over.values(&rows).expect("it pays");
        let expected: BooleanArray = (1..91).map(|row| Some(row % 3 == 1)).collect();
        assert_eq!(computed.as_boolean(), &expected);
        assert!(words.values().as_string_opt::<i32>().is_some_and(|values: &StringArray| values.len() == 3));
        assert!(over.values(&rows.slice(0, 5)).is_none(), "it does not pay for 5 rows of 3 values");
    }
}
