//! `mode() WITHIN GROUP (ORDER BY x)` and `percentile_disc(0.5) WITHIN GROUP (ORDER BY x)`, which DataFusion (55.2) lacks: one of the values,
//! of any type that has an order. Of values that are equally frequent, the first one in the order is the mode.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, UInt32Array, new_empty_array};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::{SortOptions, filter, is_not_null, take};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use datafusion::physical_expr::expressions::Literal;

use crate::refusal::refuse;

/// Returns these aggregates.
pub(crate) fn ordered_sets() -> [AggregateUDF; 2] {
    [("mode", 1), ("percentile_disc", 2)].map(|(name, arguments)| {
        let signature = Signature::any(arguments, Volatility::Immutable);
        AggregateUDF::new_from_impl(OrderedSet { name, signature })
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OrderedSet {
    name: &'static str,
    signature: Signature,
}

impl AggregateUDFImpl for OrderedSet {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [value, ..] => Ok(value.clone()),
            [] => exec_err!("{} needs a value to order by", self.name),
        }
    }

    fn supports_within_group_clause(&self) -> bool {
        true
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let chosen = match args.exprs {
            [_, fraction] => Chosen::AtFraction(fraction_of(fraction.as_ref())?),
            _ => Chosen::MostFrequent,
        };
        let is_descending = args.order_bys.first().is_some_and(|order| order.options.descending);
        let data_type = args.expr_fields[0].data_type().clone();
        Ok(Box::new(Values {
            chosen,
            is_descending,
            is_distinct: args.is_distinct,
            data_type,
            batches: Vec::new(),
        }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let item = Field::new_list_field(args.input_fields[0].data_type().clone(), true);
        Ok(vec![Arc::new(Field::new(args.name, DataType::List(Arc::new(item)), true))])
    }
}

fn fraction_of(argument: &dyn datafusion::physical_expr::PhysicalExpr) -> Result<f64> {
    let literal = argument.downcast_ref::<Literal>().map(Literal::value);
    let fraction = literal.and_then(|value| value.cast_to(&DataType::Float64).ok());
    match fraction {
        Some(ScalarValue::Float64(Some(fraction))) if (0.0..=1.0).contains(&fraction) => Ok(fraction),
        _ => Err(refuse(
            "percentile_disc needs a constant from 0 to 1",
            "write percentile_disc(0.5) WITHIN GROUP (ORDER BY column)",
        )),
    }
}

#[derive(Clone, Copy, Debug)]
enum Chosen {
    MostFrequent,
    /// The first value at which at least this fraction of the values has come.
    AtFraction(f64),
}

/// The values of a group.
#[derive(Debug)]
struct Values {
    chosen: Chosen,
    is_descending: bool,
    is_distinct: bool,
    data_type: DataType,
    batches: Vec<ArrayRef>,
}

impl Values {
    fn all(&self) -> Result<ArrayRef> {
        if self.batches.is_empty() {
            return Ok(new_empty_array(&self.data_type));
        }
        let batches: Vec<&dyn Array> = self.batches.iter().map(|batch| batch.as_ref()).collect();
        Ok(datafusion::arrow::compute::concat(&batches)?)
    }

    /// The number of the chosen value.
    fn place(&self, values: &ArrayRef) -> Result<Option<usize>> {
        let options = SortOptions { descending: self.is_descending, nulls_first: false };
        let field = SortField::new_with_options(self.data_type.clone(), options);
        let rows = RowConverter::new(vec![field])?.convert_columns(std::slice::from_ref(values))?;
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by(|one, other| rows.row(*one).cmp(&rows.row(*other)));
        if self.is_distinct {
            order.dedup_by(|one, other| rows.row(*one) == rows.row(*other));
        }
        Ok(match self.chosen {
            Chosen::AtFraction(fraction) => {
                let place = (fraction * order.len() as f64).ceil() as usize;
                order.get(place.saturating_sub(1)).copied()
            }
            Chosen::MostFrequent => {
                let groups = order.chunk_by(|one, other| rows.row(*one) == rows.row(*other));
                // The last of equal ones would be found, were they not in reverse.
                let groups: Vec<&[usize]> = groups.collect();
                groups.iter().rev().max_by_key(|group| group.len()).map(|group| group[0])
            }
        })
    }
}

impl Accumulator for Values {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        if let Some(values) = values.first().filter(|values| !values.is_empty()) {
            self.batches.push(filter(values, &is_not_null(values)?)?);
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let values = self.all()?;
        match self.place(&values)? {
            Some(place) => ScalarValue::try_from_array(&values, place),
            None => ScalarValue::try_from(&self.data_type),
        }
    }

    fn size(&self) -> usize {
        let values = self.batches.iter().map(|batch| batch.get_array_memory_size());
        size_of_val(self) + values.sum::<usize>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = self.all()?;
        let options = SortOptions { descending: false, nulls_first: false };
        let rows = RowConverter::new(vec![SortField::new_with_options(self.data_type.clone(), options)])?
            .convert_columns(std::slice::from_ref(&values))?;
        // The same state for the same values, in whatever order they came.
        let mut order: Vec<u32> = (0..values.len() as u32).collect();
        order.sort_by(|one, other| rows.row(*one as usize).cmp(&rows.row(*other as usize)));
        let values = take(&values, &UInt32Array::from(order), None)?;
        let item = Arc::new(Field::new_list_field(self.data_type.clone(), true));
        let list = ListArray::try_new(item, OffsetBuffer::from_lengths([values.len()]), values, None)?;
        Ok(vec![ScalarValue::List(Arc::new(list))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [states] = states else { return exec_err!("values are kept in one list") };
        for values in states.as_list::<i32>().iter().flatten() {
            self.update_batch(&[values])?;
        }
        Ok(())
    }
}
