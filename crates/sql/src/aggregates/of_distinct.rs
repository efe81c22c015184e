//! Aggregates of distinct arguments. DataFusion (55.2) ignores DISTINCT for those of two arguments, and within groups for some of one. Lists
//! and texts of distinct values it gives in the order of a hash table, which is another one in each run; here they are in the
//! order of the values, NULL last, as in PostgreSQL.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, ListArray, StructArray, UInt32Array, new_empty_array,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::{SortOptions, take};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};

/// Aggregates that need it.
const INEXACT: [&str; 18] = [
    "bit_xor",
    "corr",
    "covar_pop",
    "covar_samp",
    "regr_avgx",
    "regr_avgy",
    "regr_count",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "var",
    "var_pop",
];

/// Aggregates that show the order of their values.
const ORDERED: [&str; 2] = ["array_agg", "string_agg"];

/// Returns whether an aggregate shows the order in which its values come.
pub(crate) fn shows_order(function: &AggregateUDF) -> bool {
    ORDERED.contains(&function.name())
}

/// Returns the aggregate that takes each combination of its arguments once, if DISTINCT does not do that.
pub(crate) fn of_distinct(function: &Arc<AggregateUDF>, arguments: usize) -> Option<Arc<AggregateUDF>> {
    (INEXACT.contains(&function.name()) || shows_order(function)).then(|| {
        Arc::new(AggregateUDF::new_from_impl(OfDistinct {
            name: format!("{} of distinct", function.name()),
            function: Arc::clone(function),
            signature: Signature::any(arguments, Volatility::Immutable),
        }))
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfDistinct {
    name: String,
    function: Arc<AggregateUDF>,
    signature: Signature,
}

impl AggregateUDFImpl for OfDistinct {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.function.return_type(arguments)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let types = args.expr_fields.iter().map(|field| field.data_type().clone()).collect();
        let function = self.function.accumulator(args)?;
        Ok(Box::new(DistinctRows {
            function,
            fields: fields(types),
            rows: Vec::new(),
            known: HashSet::new(),
            is_ordered: shows_order(&self.function),
        }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let types = args.input_fields.iter().map(|field| field.data_type().clone()).collect();
        let row = Field::new_list_field(DataType::Struct(fields(types)), true);
        Ok(vec![Arc::new(Field::new(args.name, DataType::List(Arc::new(row)), true))])
    }
}

fn fields(types: Vec<DataType>) -> Fields {
    types.into_iter().enumerate().map(|(index, one)| Field::new(index.to_string(), one, true)).collect()
}

/// The distinct rows of a group, in the order in which they came; the function has got them, unless it gets them in their own order.
#[derive(Debug)]
struct DistinctRows {
    function: Box<dyn Accumulator>,
    fields: Fields,
    rows: Vec<Vec<ScalarValue>>,
    known: HashSet<Vec<ScalarValue>>,
    is_ordered: bool,
}

impl DistinctRows {
    fn columns(&self) -> Result<Vec<ArrayRef>> {
        let column = |(index, field): (usize, &FieldRef)| {
            if self.rows.is_empty() {
                Ok(new_empty_array(field.data_type()))
            } else {
                ScalarValue::iter_to_array(self.rows.iter().map(|row| row[index].clone()))
            }
        };
        self.fields.iter().enumerate().map(column).collect()
    }
}

/// Returns the rows of columns in the order of their values, NULL last.
fn in_order(columns: Vec<ArrayRef>) -> Result<Vec<ArrayRef>> {
    let options = SortOptions { descending: false, nulls_first: false };
    let field = |column: &ArrayRef| SortField::new_with_options(column.data_type().clone(), options);
    let converter = RowConverter::new(columns.iter().map(field).collect())?;
    let rows = converter.convert_columns(&columns)?;
    let mut order: Vec<u32> = (0..rows.num_rows() as u32).collect();
    order.sort_by(|one, other| rows.row(*one as usize).cmp(&rows.row(*other as usize)));
    let order = UInt32Array::from(order);
    Ok(columns.iter().map(|column| take(column, &order, None)).collect::<Result<_, _>>()?)
}

impl Accumulator for DistinctRows {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let mut new = Vec::new();
        for index in 0..values.first().map_or(0, |values| values.len()) {
            let row: Vec<ScalarValue> = values
                .iter()
                .map(|values| ScalarValue::try_from_array(values, index))
                .collect::<Result<_>>()?;
            if self.known.insert(row.clone()) {
                self.rows.push(row);
                new.push(index as u32);
            }
        }
        if self.is_ordered {
            return Ok(());
        }
        let new = UInt32Array::from(new);
        let values = values.iter().map(|values| take(values, &new, None)).collect::<Result<Vec<_>, _>>()?;
        self.function.update_batch(&values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.is_ordered {
            let columns = in_order(self.columns()?)?;
            self.function.update_batch(&columns)?;
        }
        self.function.evaluate()
    }

    fn size(&self) -> usize {
        let values = self.rows.iter().flatten().map(|value| 2 * value.size());
        size_of_val(self) + self.function.size() + values.sum::<usize>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let columns = if self.is_ordered { in_order(self.columns()?)? } else { self.columns()? };
        let rows = StructArray::try_new(self.fields.clone(), columns, None)?;
        let item = Field::new_list_field(DataType::Struct(self.fields.clone()), true);
        let offsets = OffsetBuffer::from_lengths([rows.len()]);
        let list = ListArray::try_new(Arc::new(item), offsets, Arc::new(rows), None)?;
        Ok(vec![ScalarValue::List(Arc::new(list))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [states] = states else { return exec_err!("distinct rows are kept in one list") };
        for rows in states.as_list::<i32>().iter().flatten() {
            self.update_batch(rows.as_struct().columns())?;
        }
        Ok(())
    }
}
