//! DataFusion's aggregate functions (and users' functions written for DataFusion) behind our trait: one accumulator per
//! group. Slower than our own, and used for all functions that we do not have.

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, StringArray, UInt32Array, new_empty_array, new_null_array,
};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::compute::{concat, take};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Accumulator as ForeignAccumulator, Expr, SortExpr as Sort};
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::{PhysicalSortExpr, create_physical_expr};
use parking_lot::{Mutex, MutexGuard};
use tidemill_engine::Cause;
use tidemill_operators::{Accumulator, Aggregate};

use crate::expressions::compiled::plain;

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
                "DISTINCT ON, or first_value with ORDER BY, keeps the first row in an order, and a stream has \
                 no final order",
                crate::translate::changelog::KEEP_UP_TO_DATE,
            ));
        }
        if !call.params.order_by.is_empty() && !within_group {
            return Err(crate::refusal::refuse(
                format!("ORDER BY within {} is not supported on streams", call.func.name()),
                crate::translate::changelog::KEEP_UP_TO_DATE,
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
        let refused = |error: DataFusionError| crate::refusal::refuse(plain(&error), "remove it");
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
        let state = fields.iter().map(|field| field.data_type().clone());
        // Why the group has failed, if it has.
        state.chain([DataType::Utf8]).collect()
    }

    fn partials_added(&self) -> usize {
        1
    }

    /// Nothing is known of them.
    fn is_exact(&self) -> bool {
        false
    }

    fn accumulator(&self) -> Box<dyn Accumulator> {
        Box::new(Groups {
            expression: Arc::clone(&self.expression),
            groups: Mutex::default(),
            measured: 0,
            given: 0,
        })
    }
}

struct Groups {
    expression: Arc<AggregateFunctionExpr>,
    /// Locked because reading a state needs it mutably; nobody else waits for it.
    groups: Mutex<Vec<Group>>,
    /// The bytes of all groups when they were last asked, and those that were given to them since. Asking takes as long as
    /// there are groups, and for some functions as long as there are values.
    measured: usize,
    given: usize,
}

/// Groups are asked again when they were given half of what they had, and this much more.
const GIVEN_BYTES: usize = 16 << 10;
/// What a group takes at least.
const GROUP_BYTES: usize = 128;

/// The state of a group.
enum Group {
    /// All of its rows were added.
    Whole(Box<dyn ForeignAccumulator>),
    /// A row or a partial result could not be added, for this reason. The function may have changed its state before it
    /// failed, so the group has no result from then on.
    Failed(String),
}

/// The longest reason that is kept with a group.
const REASON_BYTES_MAX: usize = 300;

impl Group {
    fn fresh(expression: &AggregateFunctionExpr) -> Group {
        match expression.create_accumulator() {
            Ok(accumulator) => Group::Whole(accumulator),
            Err(error) => Group::Failed(plain(&error)),
        }
    }

    /// A group that fails for this reason. An error means that the query cannot continue.
    fn failed(error: DataFusionError) -> std::result::Result<Group, Cause> {
        if let DataFusionError::ResourcesExhausted(_) = error.find_root() {
            return Err(Cause::resource(plain(&error)).with_source(error));
        }
        let mut reason = plain(&error);
        reason.truncate((0..=REASON_BYTES_MAX).rev().find(|end| reason.is_char_boundary(*end)).unwrap_or(0));
        Ok(Group::Failed(reason))
    }

    /// Adds something, unless the group has failed already.
    fn add(
        &mut self,
        add: impl FnOnce(&mut dyn ForeignAccumulator) -> Result<()>,
    ) -> std::result::Result<(), Cause> {
        if let Group::Whole(accumulator) = self
            && let Err(error) = add(accumulator.as_mut())
        {
            *self = Group::failed(error)?;
        }
        Ok(())
    }

    /// The state of the group, which stays unchanged; `None` if it has failed.
    fn state(
        &mut self,
        expression: &AggregateFunctionExpr,
    ) -> std::result::Result<Option<Vec<ScalarValue>>, Cause> {
        let Group::Whole(accumulator) = self else { return Ok(None) };
        // Reading the state may use it up.
        match accumulator.state().and_then(|state| Ok((merged(expression, &state)?, state))) {
            Ok((same, state)) => {
                *accumulator = same;
                Ok(Some(state))
            }
            Err(error) => {
                *self = Group::failed(error)?;
                Ok(None)
            }
        }
    }

    /// Why it has failed, if it has.
    fn reason(&self) -> Option<&str> {
        match self {
            Group::Whole(_) => None,
            Group::Failed(reason) => Some(reason),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Group::Whole(accumulator) => accumulator.size(),
            Group::Failed(reason) => reason.len(),
        }
    }
}

/// An accumulator with this state.
fn merged(expression: &AggregateFunctionExpr, state: &[ScalarValue]) -> Result<Box<dyn ForeignAccumulator>> {
    let mut fresh = expression.create_accumulator()?;
    let arrays = state.iter().map(|value| value.to_array_of_size(1));
    fresh.merge_batch(&arrays.collect::<Result<Vec<_>>>()?)?;
    Ok(fresh)
}

impl Groups {
    /// Groups were given values of this many bytes.
    fn grown(&mut self, bytes: usize) {
        self.given += bytes;
        if self.given > self.measured / 2 + GIVEN_BYTES {
            let measured = self.lock().iter().map(Group::bytes).sum();
            (self.measured, self.given) = (measured, 0);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Group>> {
        self.groups.lock()
    }
}

fn user(error: DataFusionError) -> Cause {
    Cause::user(plain(&error)).with_source(error)
}

/// The rows of each group, with groups in ascending order.
pub(in crate::translate) fn rows_by_group(
    groups: &[u32],
    filter: Option<&BooleanArray>,
) -> Vec<(usize, UInt32Array)> {
    let chosen =
        |row: &u32| filter.is_none_or(|filter| filter.is_valid(*row as usize) && filter.value(*row as usize));
    let mut rows: Vec<u32> = (0..groups.len() as u32).filter(chosen).collect();
    rows.sort_by_key(|row| groups[*row as usize]);
    let group_of = |row: &u32| groups[*row as usize];
    rows.chunk_by(|a, b| group_of(a) == group_of(b))
        .map(|rows| (group_of(&rows[0]) as usize, UInt32Array::from(rows.to_vec())))
        .collect()
}

/// The chosen rows of some columns.
pub(in crate::translate) fn taken(
    columns: &[ArrayRef],
    rows: &UInt32Array,
) -> std::result::Result<Vec<ArrayRef>, Cause> {
    let taken = columns.iter().map(|column| take(column, rows, None)).collect::<std::result::Result<_, _>>();
    taken.map_err(|error| Cause::bug(error.to_string()).with_source(error))
}

fn group_of(groups: &mut [Group], number: usize) -> std::result::Result<&mut Group, Cause> {
    groups.get_mut(number).ok_or_else(|| Cause::bug("a group is missing"))
}

impl Accumulator for Groups {
    fn resize(&mut self, groups: usize) {
        let mut all = self.lock();
        let known = all.len();
        all.extend((known..groups).map(|_| Group::fresh(&self.expression)));
        drop(all);
        self.grown(groups.saturating_sub(known) * GROUP_BYTES);
    }

    fn update(
        &mut self,
        groups: &[u32],
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> std::result::Result<(), Cause> {
        let mut given = 0;
        let mut all = self.lock();
        for (group, rows) in rows_by_group(groups, filter) {
            let values = taken(arguments, &rows)?;
            given += values.iter().map(|values| values.get_array_memory_size()).sum::<usize>();
            group_of(&mut all, group)?.add(|accumulator| accumulator.update_batch(&values))?;
        }
        drop(all);
        self.grown(given);
        Ok(())
    }

    fn merge(&mut self, groups: &[u32], partials: &[ArrayRef]) -> std::result::Result<(), Cause> {
        let (reasons, states) = partials.split_last().ok_or_else(|| Cause::bug("a state has no columns"))?;
        let mut given = 0;
        let mut all = self.lock();
        for (group, rows) in rows_by_group(groups, None) {
            let group = group_of(&mut all, group)?;
            let reasons = taken(std::slice::from_ref(reasons), &rows)?.remove(0);
            match reasons.as_string::<i32>().iter().flatten().next() {
                None => {
                    let values = taken(states, &rows)?;
                    given += values.iter().map(|values| values.get_array_memory_size()).sum::<usize>();
                    group.add(|accumulator| accumulator.merge_batch(&values))?;
                }
                Some(reason) if group.reason().is_none() => *group = Group::Failed(reason.to_owned()),
                Some(_) => {}
            }
        }
        drop(all);
        self.grown(given);
        Ok(())
    }

    fn partial(&self, groups: &[u32]) -> std::result::Result<Vec<ArrayRef>, Cause> {
        let mut all = self.lock();
        let types = self.expression.state_fields().map_err(user)?;
        let mut columns: Vec<Vec<ArrayRef>> = vec![Vec::new(); types.len()];
        let mut reasons = Vec::with_capacity(groups.len());
        for group in groups {
            let group = group_of(&mut all, *group as usize)?;
            match group.state(&self.expression)? {
                Some(state) => {
                    for (column, value) in columns.iter_mut().zip(state) {
                        column.push(value.to_array_of_size(1).map_err(user)?);
                    }
                }
                None => {
                    let nulls = types.iter().map(|field| new_null_array(field.data_type(), 1));
                    columns.iter_mut().zip(nulls).for_each(|(column, null)| column.push(null));
                }
            }
            reasons.push(group.reason().map(str::to_owned));
        }
        let joined = |(values, field): (Vec<ArrayRef>, &FieldRef)| joined(&values, field.data_type());
        let columns = columns.into_iter().zip(&types).map(joined);
        columns.chain([Ok(Arc::new(StringArray::from(reasons)) as ArrayRef)]).collect()
    }

    fn evaluate(&self, groups: &[u32]) -> std::result::Result<ArrayRef, Cause> {
        let mut all = self.lock();
        let mut values = Vec::with_capacity(groups.len());
        for group in groups {
            let group = group_of(&mut all, *group as usize)?;
            let Some(state) = group.state(&self.expression)? else {
                let (name, reason) = (self.expression.name(), group.reason().unwrap_or_default());
                return Err(Cause::user(format!("{name} could not add a row: {reason}")));
            };
            let accumulator = merged(&self.expression, &state);
            let value = accumulator.and_then(|mut accumulator| accumulator.evaluate()).map_err(user)?;
            values.push(value.to_array_of_size(1).map_err(user)?);
        }
        joined(&values, self.expression.field().data_type())
    }

    fn clear(&mut self) {
        self.lock().clear();
        (self.measured, self.given) = (0, 0);
    }

    fn bytes(&self) -> usize {
        self.measured + self.given
    }
}

fn joined(values: &[ArrayRef], data_type: &DataType) -> std::result::Result<ArrayRef, Cause> {
    if values.is_empty() {
        return Ok(new_empty_array(data_type));
    }
    let values: Vec<_> = values.iter().map(|value| value.as_ref()).collect();
    concat(&values).map_err(|error| Cause::bug(error.to_string()).with_source(error))
}
