//! An aggregate whose code is loaded, as our trait has it.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, UInt32Array};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::DataType;
use tidemill_engine::Cause;
use tidemill_operators::{Accumulator, Aggregate};
use tidemill_wasm::{Failure, States};

/// An aggregate whose code is loaded.
#[derive(Debug)]
pub(crate) struct LoadedAggregate {
    /// In messages.
    shown: String,
    code: Arc<tidemill_wasm::Aggregate>,
}

impl LoadedAggregate {
    pub fn new(shown: &str, code: tidemill_wasm::Aggregate) -> LoadedAggregate {
        LoadedAggregate { shown: shown.to_owned(), code: Arc::new(code) }
    }
}

impl Aggregate for LoadedAggregate {
    fn name(&self) -> &str {
        &self.shown
    }

    fn result_type(&self) -> DataType {
        self.code.result_type().clone()
    }

    fn partial_types(&self) -> Vec<DataType> {
        self.code.partial_types()
    }

    /// Nobody knows what the code does with the order of rows.
    fn is_exact(&self) -> bool {
        false
    }

    fn accumulator(&self) -> Box<dyn Accumulator> {
        let (shown, code) = (self.shown.clone(), Arc::clone(&self.code));
        Box::new(LoadedAccumulator { states: code.states(), shown, code })
    }
}

struct LoadedAccumulator {
    shown: String,
    code: Arc<tidemill_wasm::Aggregate>,
    states: States,
}

impl LoadedAccumulator {
    fn done<T>(&self, done: Result<T, Failure>) -> Result<T, Cause> {
        done.map_err(|failure| {
            let message = format!("{}: {failure}", self.shown);
            if failure.stops() { Cause::resource(message) } else { Cause::user(message) }
        })
    }
}

impl Accumulator for LoadedAccumulator {
    fn resize(&mut self, groups: usize) {
        self.states.resize(groups);
    }

    fn update(
        &mut self,
        groups: &[u32],
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<(), Cause> {
        let Some(filter) = filter else {
            let done = self.code.update(&mut self.states, groups, arguments);
            return self.done(done);
        };
        let counts = |row: &u32| filter.is_valid(*row as usize) && filter.value(*row as usize);
        let rows: Vec<u32> = (0..groups.len() as u32).filter(counts).collect();
        let groups: Vec<u32> = rows.iter().map(|row| groups[*row as usize]).collect();
        let rows = UInt32Array::from(rows);
        let taken = arguments.iter().map(|column| take(column.as_ref(), &rows, None));
        let arguments =
            taken.collect::<Result<Vec<_>, _>>().map_err(|error| Cause::bug(error.to_string()))?;
        let done = self.code.update(&mut self.states, &groups, &arguments);
        self.done(done)
    }

    fn merge(&mut self, groups: &[u32], partials: &[ArrayRef]) -> Result<(), Cause> {
        let done = self.code.merge(&mut self.states, groups, partials);
        self.done(done)
    }

    fn partial(&self, groups: &[u32]) -> Result<Vec<ArrayRef>, Cause> {
        self.done(self.states.partial(groups))
    }

    fn evaluate(&self, groups: &[u32]) -> Result<ArrayRef, Cause> {
        self.done(self.code.result(&self.states, groups))
    }

    fn clear(&mut self) {
        self.states.clear();
    }

    fn bytes(&self) -> usize {
        self.states.bytes()
    }
}
