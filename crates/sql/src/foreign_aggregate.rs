//! DataFusion's aggregate functions (and users' functions written for DataFusion) behind our trait: one accumulator per
//! group. Slower than our own, and used for all functions that we do not have.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use datafusion::arrow::array::{ArrayRef, BooleanArray, UInt32Array};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::compute::{concat, take};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Accumulator as ForeignAccumulator, Expr, SortExpr as Sort};
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::{PhysicalSortExpr, create_physical_expr};
use tidemill_engine::Cause;
use tidemill_operators::{Accumulator, Aggregate};

use crate::expression::plain;

/// One of DataFusion's functions.
pub(crate) struct ForeignAggregate {
    expression: Arc<AggregateFunctionExpr>,
    arguments: Vec<Expr>,
}

impl fmt::Debug for ForeignAggregate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ForeignAggregate")
            .field("name", &self.expression.name())
            .finish_non_exhaustive()
    }
}

impl ForeignAggregate {
    pub fn new(call: &AggregateFunction, schema: &DFSchema) -> Result<Self> {
        let properties = ExecutionProps::new();
        let context = Default::default();
        let physical = |expression: &Expr| create_physical_expr(expression, schema, &properties, &context);
        let mut called_on = call.params.args.clone();
        let function = crate::logical::exact_total(&call.func, &mut called_on, schema)?
            .unwrap_or_else(|| Arc::clone(&call.func));
        let arguments = called_on.iter().map(physical).collect::<Result<Vec<_>>>()?;
        let within_group = call.func.supports_within_group_clause();
        if !call.params.order_by.is_empty() && call.func.name() == "first_value" {
            // DataFusion makes this of DISTINCT ON.
            return Err(crate::refusal::refuse(
                "DISTINCT ON, or first_value with ORDER BY, keeps the first row of an order that a stream does not \
                 have",
                "number the rows of each window with ROW_NUMBER() and keep the first",
            ));
        }
        if !call.params.order_by.is_empty() && !within_group {
            return Err(crate::refusal::refuse(
                format!("ORDER BY within {} is not there on streams", call.func.name()),
                "leave it out: rows come in the order of arrival",
            ));
        }
        let builder = AggregateExprBuilder::new(function, arguments)
            .schema(Arc::new(schema.as_arrow().clone()))
            .alias(call.func.name());
        // WITHIN GROUP (ORDER BY x): x is the first argument, and the order says from which end to count.
        let order = |sort: &Sort| -> Result<PhysicalSortExpr> {
            let options = SortOptions { descending: !sort.asc, nulls_first: sort.nulls_first };
            Ok(PhysicalSortExpr { expr: physical(&sort.expr)?, options })
        };
        let builder = builder.order_by(call.params.order_by.iter().map(order).collect::<Result<_>>()?);
        let builder = if call.params.distinct { builder.distinct() } else { builder };
        let builder = match call.params.null_treatment {
            Some(datafusion::logical_expr::expr::NullTreatment::IgnoreNulls) => builder.ignore_nulls(),
            _ => builder,
        };
        let expression = builder.build()?;
        // Some functions report their limits only when they are computed.
        let refused = |error: DataFusionError| crate::refusal::refuse(plain(&error), "leave it out");
        expression.create_accumulator().map_err(refused)?;
        expression.state_fields().map_err(refused)?;
        Ok(ForeignAggregate { expression: Arc::new(expression), arguments: called_on })
    }

    /// The expressions of its arguments.
    pub fn arguments(&self) -> &[Expr] {
        &self.arguments
    }
}

impl Aggregate for ForeignAggregate {
    fn name(&self) -> &str {
        self.expression.name()
    }

    fn result_type(&self) -> DataType {
        self.expression.field().data_type().clone()
    }

    fn partial_types(&self) -> Vec<DataType> {
        let fields = self.expression.state_fields().unwrap_or_default();
        fields.iter().map(|field| field.data_type().clone()).collect()
    }

    /// Nothing is known of them.
    fn is_exact(&self) -> bool {
        false
    }

    fn accumulator(&self) -> Box<dyn Accumulator> {
        Box::new(Groups { expression: Arc::clone(&self.expression), groups: Mutex::default() })
    }
}

struct Groups {
    expression: Arc<AggregateFunctionExpr>,
    /// Locked because reading a state needs it mutably; nobody else waits for it.
    groups: Mutex<Vec<Box<dyn ForeignAccumulator>>>,
}

impl Groups {
    fn lock(&self) -> MutexGuard<'_, Vec<Box<dyn ForeignAccumulator>>> {
        self.groups.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn fresh(&self) -> Result<Box<dyn ForeignAccumulator>, Cause> {
        self.expression.create_accumulator().map_err(user)
    }

    /// The state of a group, which stays unchanged.
    fn state(&self, accumulator: &mut Box<dyn ForeignAccumulator>) -> Result<Vec<ScalarValue>, Cause> {
        let state = accumulator.state().map_err(user)?;
        *accumulator = self.merged(&state)?;
        Ok(state)
    }

    fn merged(&self, state: &[ScalarValue]) -> Result<Box<dyn ForeignAccumulator>, Cause> {
        let mut fresh = self.fresh()?;
        let arrays = state.iter().map(|value| value.to_array_of_size(1));
        let arrays = arrays.collect::<Result<Vec<_>>>().map_err(user)?;
        fresh.merge_batch(&arrays).map_err(user)?;
        Ok(fresh)
    }
}

fn user(error: datafusion::common::DataFusionError) -> Cause {
    Cause::user(plain(&error)).with_source(error)
}

/// The rows of each group, with groups in ascending order.
fn rows_by_group(groups: &[u32], filter: Option<&BooleanArray>) -> Vec<(usize, UInt32Array)> {
    let chosen = |row: &u32| {
        filter.is_none_or(|filter| {
            use datafusion::arrow::array::Array;
            filter.is_valid(*row as usize) && filter.value(*row as usize)
        })
    };
    let mut rows: Vec<u32> = (0..groups.len() as u32).filter(chosen).collect();
    rows.sort_by_key(|row| groups[*row as usize]);
    let group_of = |row: &u32| groups[*row as usize];
    rows.chunk_by(|a, b| group_of(a) == group_of(b))
        .map(|rows| (group_of(&rows[0]) as usize, UInt32Array::from(rows.to_vec())))
        .collect()
}

impl Accumulator for Groups {
    fn resize(&mut self, groups: usize) {
        let mut all = self.lock();
        while all.len() < groups {
            match self.expression.create_accumulator() {
                Ok(accumulator) => all.push(accumulator),
                // It could be made when the query was planned; the first use reports it otherwise.
                Err(_) => return,
            }
        }
    }

    fn update(
        &mut self,
        groups: &[u32],
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> std::result::Result<(), Cause> {
        let mut all = self.lock();
        for (group, rows) in rows_by_group(groups, filter) {
            let values = arguments.iter().map(|argument| take(argument, &rows, None));
            let values = values.collect::<std::result::Result<Vec<_>, _>>();
            let values = values.map_err(|error| Cause::bug(error.to_string()).with_source(error))?;
            let accumulator = all.get_mut(group).ok_or_else(|| Cause::bug("a group is missing"))?;
            accumulator.update_batch(&values).map_err(user)?;
        }
        Ok(())
    }

    fn merge(&mut self, groups: &[u32], partials: &[ArrayRef]) -> std::result::Result<(), Cause> {
        let mut all = self.lock();
        for (group, rows) in rows_by_group(groups, None) {
            let values = partials.iter().map(|partial| take(partial, &rows, None));
            let values = values.collect::<std::result::Result<Vec<_>, _>>();
            let values = values.map_err(|error| Cause::bug(error.to_string()).with_source(error))?;
            let accumulator = all.get_mut(group).ok_or_else(|| Cause::bug("a group is missing"))?;
            accumulator.merge_batch(&values).map_err(user)?;
        }
        Ok(())
    }

    fn partial(&self, groups: &[u32]) -> std::result::Result<Vec<ArrayRef>, Cause> {
        let mut all = self.lock();
        let types = self.expression.state_fields().map_err(user)?;
        let mut columns: Vec<Vec<ArrayRef>> = vec![Vec::new(); types.len()];
        for group in groups {
            let state = self.state(&mut all[*group as usize])?;
            for (column, value) in columns.iter_mut().zip(state) {
                column.push(value.to_array_of_size(1).map_err(user)?);
            }
        }
        let joined = |(values, field): (Vec<ArrayRef>, &Arc<datafusion::arrow::datatypes::Field>)| {
            joined(&values, field.data_type())
        };
        columns.into_iter().zip(&types).map(joined).collect()
    }

    fn evaluate(&self, groups: &[u32]) -> std::result::Result<ArrayRef, Cause> {
        let mut all = self.lock();
        let mut values = Vec::with_capacity(groups.len());
        for group in groups {
            let state = self.state(&mut all[*group as usize])?;
            let value = self.merged(&state)?.evaluate().map_err(user)?;
            values.push(value.to_array_of_size(1).map_err(user)?);
        }
        joined(&values, self.expression.field().data_type())
    }

    fn clear(&mut self) {
        self.lock().clear();
    }

    fn bytes(&self) -> usize {
        self.lock().iter().map(|accumulator| accumulator.size()).sum()
    }
}

fn joined(values: &[ArrayRef], data_type: &DataType) -> std::result::Result<ArrayRef, Cause> {
    if values.is_empty() {
        return Ok(datafusion::arrow::array::new_empty_array(data_type));
    }
    let values: Vec<_> = values.iter().map(|value| value.as_ref()).collect();
    concat(&values).map_err(|error| Cause::bug(error.to_string()).with_source(error))
}
