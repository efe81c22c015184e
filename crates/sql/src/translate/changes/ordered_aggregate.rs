//! Aggregates whose arguments have an order: `array_agg(price ORDER BY at)`, `first_value(price ORDER BY at)`, `DISTINCT ON`. Over
//! rows that come and go they are computed from all rows of a group, which are put in order first.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, UInt32Array, new_empty_array};
use datafusion::arrow::compute::{SortColumn, SortOptions, concat, interleave, lexsort_to_indices};
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::error::ArrowError;
use tidemill_engine::Cause;
use tidemill_operators::{Accumulator, Aggregate};

use crate::translate::foreign_aggregate::{rows_by_group, taken};

/// A function that sees the rows of a group in an order. The last arguments are the keys of the order; rows with equal keys keep the
/// order in which they come.
pub(super) struct OrderedAggregate {
    inner: Arc<dyn Aggregate>,
    keys: Vec<SortOptions>,
}

impl OrderedAggregate {
    pub fn new(inner: Arc<dyn Aggregate>, keys: Vec<SortOptions>) -> OrderedAggregate {
        OrderedAggregate { inner, keys }
    }
}

impl fmt::Debug for OrderedAggregate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("OrderedAggregate").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl Aggregate for OrderedAggregate {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn result_type(&self) -> DataType {
        self.inner.result_type()
    }

    fn partial_types(&self) -> Vec<DataType> {
        Vec::new()
    }

    fn is_exact(&self) -> bool {
        false
    }

    fn accumulator(&self) -> Box<dyn Accumulator> {
        Box::new(OrderedRows { inner: Arc::clone(&self.inner), keys: self.keys.clone(), groups: Vec::new() })
    }
}

/// The rows of each group, as they came.
struct OrderedRows {
    inner: Arc<dyn Aggregate>,
    keys: Vec<SortOptions>,
    groups: Vec<Vec<Vec<ArrayRef>>>,
}

impl OrderedRows {
    /// The result of one group.
    fn result(&self, pieces: &[Vec<ArrayRef>]) -> Result<ArrayRef, Cause> {
        let mut inner = self.inner.accumulator();
        inner.resize(1);
        if let Some(first) = pieces.first() {
            let column = |index: usize| {
                let parts: Vec<&dyn Array> = pieces.iter().map(|piece| piece[index].as_ref()).collect();
                concat(&parts)
            };
            let columns = (0..first.len()).map(column).collect::<Result<Vec<_>, _>>().map_err(of_arrow)?;
            let (arguments, keys) = columns.split_at(columns.len().saturating_sub(self.keys.len()));
            let rows = columns.first().map_or(0, |column| column.len());
            let places = UInt32Array::from_iter_values(0..rows as u32);
            let sorted = keys.iter().zip(&self.keys);
            let sorted = sorted
                .map(|(values, options)| SortColumn { values: Arc::clone(values), options: Some(*options) });
            let sorted: Vec<SortColumn> =
                sorted.chain([SortColumn { values: Arc::new(places), options: None }]).collect();
            let order = lexsort_to_indices(&sorted, None).map_err(of_arrow)?;
            inner.update(&vec![0; rows], &taken(arguments, &order)?, None)?;
        }
        inner.evaluate(&[0])
    }
}

fn of_arrow(error: ArrowError) -> Cause {
    Cause::bug(error.to_string()).with_source(error)
}

fn never_partial() -> Cause {
    Cause::bug("an aggregate in an order has no partial results")
}

impl Accumulator for OrderedRows {
    fn resize(&mut self, groups: usize) {
        self.groups.resize_with(groups, Vec::new);
    }

    fn update(
        &mut self,
        groups: &[u32],
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<(), Cause> {
        for (number, rows) in rows_by_group(groups, filter) {
            let group = self.groups.get_mut(number).ok_or_else(|| Cause::bug("a group is missing"))?;
            group.push(taken(arguments, &rows)?);
        }
        Ok(())
    }

    fn merge(&mut self, _groups: &[u32], _partials: &[ArrayRef]) -> Result<(), Cause> {
        Err(never_partial())
    }

    fn partial(&self, _groups: &[u32]) -> Result<Vec<ArrayRef>, Cause> {
        Err(never_partial())
    }

    fn evaluate(&self, groups: &[u32]) -> Result<ArrayRef, Cause> {
        if groups.is_empty() {
            return Ok(new_empty_array(&self.inner.result_type()));
        }
        let results = groups.iter().map(|group| {
            let pieces = self.groups.get(*group as usize).ok_or_else(|| Cause::bug("a group is missing"))?;
            self.result(pieces)
        });
        let results: Vec<ArrayRef> = results.collect::<Result<_, Cause>>()?;
        let parts: Vec<&dyn Array> = results.iter().map(|result| result.as_ref()).collect();
        let places: Vec<(usize, usize)> = (0..parts.len()).map(|index| (index, 0)).collect();
        interleave(&parts, &places).map_err(of_arrow)
    }

    fn clear(&mut self) {
        self.groups.clear();
    }

    fn bytes(&self) -> usize {
        let pieces = self.groups.iter().flatten().flatten();
        pieces.map(|values| values.get_array_memory_size()).sum()
    }
}
