//! Our accumulators in DataFusion's form: for one group, and for many.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray};
use datafusion::arrow::datatypes::{Field, FieldRef};
use datafusion::common::{DataFusionError, Result, ScalarValue, not_impl_err};
use datafusion::logical_expr::{Accumulator as ForeignAccumulator, EmitTo, GroupsAccumulator};
use parking_lot::{Mutex, MutexGuard};
use tidemill_engine::{Cause, Fault};
use tidemill_operators::{Accumulator, Aggregate};

use crate::limit_reached::stopped;

/// What a limit forbids stops the query, and leaves out no row.
fn failed(cause: Cause) -> DataFusionError {
    match cause.fault {
        Fault::Resource => stopped(cause),
        _ => DataFusionError::Execution(cause.to_string()),
    }
}

/// The columns of a partial result.
pub(crate) fn state_fields(function: &dyn Aggregate, name: &str) -> Vec<FieldRef> {
    let types = function.partial_types().into_iter().enumerate();
    types.map(|(at, data_type)| Arc::new(Field::new(format!("{name} {at}"), data_type, true))).collect()
}

/// One group.
pub(crate) struct SingleGroup {
    /// Locked because DataFusion needs to share it; nobody else waits for it.
    inner: Mutex<Box<dyn Accumulator>>,
}

impl SingleGroup {
    pub fn new(function: &dyn Aggregate) -> Self {
        let mut inner = function.accumulator();
        inner.resize(1);
        SingleGroup { inner: Mutex::new(inner) }
    }

    fn lock(&self) -> MutexGuard<'_, Box<dyn Accumulator>> {
        self.inner.lock()
    }
}

impl fmt::Debug for SingleGroup {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SingleGroup").finish_non_exhaustive()
    }
}

impl ForeignAccumulator for SingleGroup {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let rows = values.first().map_or(0, |values| values.len());
        self.lock().update(&vec![0; rows], values, None).map_err(failed)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let rows = states.first().map_or(0, |states| states.len());
        self.lock().merge(&vec![0; rows], states).map_err(failed)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&self.lock().evaluate(&[0]).map_err(failed)?, 0)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let partial = self.lock().partial(&[0]).map_err(failed)?;
        partial.iter().map(|column| ScalarValue::try_from_array(column, 0)).collect()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.lock().bytes()
    }
}

/// Many groups.
pub(crate) struct ManyGroups {
    function: Arc<dyn Aggregate>,
    inner: Box<dyn Accumulator>,
    groups: usize,
}

impl ManyGroups {
    pub fn new(function: Arc<dyn Aggregate>) -> Self {
        let inner = function.accumulator();
        ManyGroups { function, inner, groups: 0 }
    }

    fn grow(&mut self, groups: usize) {
        self.groups = self.groups.max(groups);
        self.inner.resize(self.groups);
    }

    /// What is wanted from the first groups; the others become the first.
    fn emit<T>(
        &mut self,
        emit_to: EmitTo,
        of: impl Fn(&dyn Accumulator, &[u32]) -> std::result::Result<T, Cause>,
    ) -> Result<T> {
        let count = match emit_to {
            EmitTo::All => self.groups,
            EmitTo::First(count) => count,
        };
        let numbers = |from: usize, to: usize| (from as u32..to as u32).collect::<Vec<_>>();
        let emitted = of(self.inner.as_ref(), &numbers(0, count)).map_err(failed)?;
        let rest = self.inner.partial(&numbers(count, self.groups)).map_err(failed)?;
        self.inner = self.function.accumulator();
        self.groups -= count;
        self.inner.resize(self.groups);
        self.inner.merge(&numbers(0, self.groups), &rest).map_err(failed)?;
        Ok(emitted)
    }
}

fn numbers_of(groups: &[usize]) -> Vec<u32> {
    groups.iter().map(|group| *group as u32).collect()
}

impl GroupsAccumulator for ManyGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.grow(count);
        self.inner.update(&numbers_of(groups), values, filter).map_err(failed)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.grow(count);
        self.inner.merge(&numbers_of(groups), states).map_err(failed)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        self.emit(emit_to, |inner, groups| inner.evaluate(groups))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.emit(emit_to, |inner, groups| inner.partial(groups))
    }

    fn convert_to_state(
        &self,
        _values: &[ArrayRef],
        _filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        not_impl_err!("rows are aggregated in one step")
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.inner.bytes()
    }
}
