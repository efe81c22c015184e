//! Divides rows into calls that change states.

use std::time::Duration;

use arrow_array::ArrayRef;
use arrow_schema::DataType;

use crate::deadline::{Deadline, TIME_MAX};
use crate::failure::Fault;
use crate::grouped::{self, Batch, Changed, Emitted, taken};
use crate::instances::Instances;
use crate::repeats::Repeats;
use crate::{Failure, Limits, Module, States};

/// Functions of a module that change states.
pub(crate) struct Steps {
    pub instances: Instances,
    pub limits: Limits,
    /// The types of the states.
    pub states: Vec<DataType>,
    /// The types of the rows that are given, if any are.
    pub output: Option<Vec<DataType>>,
    pub time_max: Duration,
    pub repeats: Repeats,
}

/// What becomes of the pieces that rows are divided into.
pub(crate) trait Pieces {
    /// Rows that the piece of input rows from `first` on gave.
    fn emit(&mut self, first: u32, emitted: Emitted) -> Result<(), Failure>;

    /// The code fails for a row of a group.
    fn trap(&mut self, states: &mut States, row: u32, group: u32, reason: String) -> Result<(), Failure>;
}

/// Rows for one function, with the groups that they belong to.
#[derive(Clone, Copy)]
pub(crate) struct Step<'a> {
    pub symbol: &'a str,
    pub arguments: &'a [ArrayRef],
    pub groups: &'a [u32],
}

impl Steps {
    pub fn new(module: &Module, states: &[DataType], output: Option<Vec<DataType>>, limits: Limits) -> Steps {
        Steps {
            instances: Instances::new(module.clone(), limits),
            limits,
            states: states.to_vec(),
            output,
            time_max: TIME_MAX,
            repeats: Repeats::default(),
        }
    }

    /// Changes the states of the rows' groups.
    pub fn run(&self, states: &mut States, step: Step<'_>, pieces: &mut impl Pieces) -> Result<(), Failure> {
        let fit = step.arguments.iter().all(|column| column.len() == step.groups.len())
            && step.groups.iter().all(|group| (*group as usize) < states.len());
        if !fit {
            return Err(Failure::Stop("it was called with columns that it does not take".to_owned()));
        }
        self.piece(states, step, 0, pieces, Deadline::after(self.time_max))
    }

    /// What needs too much at once, or fails, is done for half of the rows and then for the other half. So a failure is
    /// found to be that of a row.
    fn piece(
        &self,
        states: &mut States,
        step: Step<'_>,
        first: u32,
        pieces: &mut impl Pieces,
        deadline: Deadline,
    ) -> Result<(), Failure> {
        if let Some(rows) = states.without_failed(step.groups) {
            let groups: Vec<u32> = rows.iter().map(|row| step.groups[*row as usize]).collect();
            let arguments = taken(step.arguments, &rows)?;
            let rest = Step { arguments: &arguments, groups: &groups, ..step };
            return self.piece(states, rest, first, pieces, deadline);
        }
        let rows = step.groups.len();
        if rows == 0 {
            return Ok(());
        }
        deadline.check().map_err(Fault::final_failure)?;
        let touched = states.touched(step.groups);
        let before = states.get(&touched.groups)?;
        let batch = Batch { arguments: step.arguments, groups: &touched.of_rows, states: &before };
        match self.at_once(step.symbol, &batch) {
            Ok(changed) => {
                if rows > 1 && self.repeats.is_due() {
                    self.check_division(step.symbol, &batch, &changed)?;
                }
                states.set(&touched.groups, &changed.states)?;
                pieces.emit(first, changed.output)
            }
            Err(Fault::TooMuch(_) | Fault::Trap(_)) if rows > 1 => {
                let half = rows / 2;
                let columns = parts(step.arguments, 0, half);
                let part = Step { arguments: &columns, groups: &step.groups[..half], ..step };
                self.piece(states, part, first, pieces, deadline)?;
                let columns = parts(step.arguments, half, rows - half);
                let part = Step { arguments: &columns, groups: &step.groups[half..], ..step };
                self.piece(states, part, first + half as u32, pieces, deadline)
            }
            Err(Fault::Trap(reason)) => pieces.trap(states, first, step.groups[0], reason),
            Err(fault) => Err(fault.final_failure()),
        }
    }

    fn at_once(&self, symbol: &str, batch: &Batch<'_>) -> Result<Changed, Fault> {
        self.instances.with(|live| grouped::call(live, symbol, batch, self.output.as_deref(), &self.limits))
    }

    /// Does the same in two calls: what comes of rows must not depend on how they are divided into batches, because that
    /// depends on the number of workers and on the length of a cycle.
    fn check_division(&self, symbol: &str, batch: &Batch<'_>, whole: &Changed) -> Result<(), Failure> {
        let half = batch.groups.len() / 2;
        let divided = self.divided(symbol, batch, half);
        if divided.is_ok_and(|divided| divided == *whole) {
            Ok(())
        } else {
            Err(Failure::Stop(
                "it computes something else for the same rows when they come in two batches; what it does with a \
                 row must depend on the row and on the state of its group only"
                    .to_owned(),
            ))
        }
    }

    fn divided(&self, symbol: &str, batch: &Batch<'_>, half: usize) -> Result<Changed, Failure> {
        let mut states = States::new(&self.states);
        let groups: Vec<u32> = (0..batch.states[0].len() as u32).collect();
        states.resize(groups.len());
        states.set(&groups, batch.states)?;
        let mut all = Emitted::default();
        for (from, rows) in [(0, half), (half, batch.groups.len() - half)] {
            let touched = states.touched(&batch.groups[from..from + rows]);
            let before = states.get(&touched.groups)?;
            let arguments = parts(batch.arguments, from, rows);
            let part = Batch { arguments: &arguments, groups: &touched.of_rows, states: &before };
            let changed = self.at_once(symbol, &part).map_err(Fault::final_failure)?;
            states.set(&touched.groups, &changed.states)?;
            all.append(from as u32, changed.output)?;
        }
        Ok(Changed { states: states.get(&groups)?, output: all })
    }
}

fn parts(columns: &[ArrayRef], from: usize, rows: usize) -> Vec<ArrayRef> {
    columns.iter().map(|column| column.slice(from, rows)).collect()
}
