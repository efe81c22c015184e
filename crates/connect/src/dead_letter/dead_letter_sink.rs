//! A sink in front of another one, which keeps back the rows that have no text.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use arrow_array::BooleanArray;
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::filter::filter_record_batch;
use tidemill_core::{Batch, Cause, CycleOutput, DelegatingSink, FaultLog, Sink};

use super::{DeadLetter, DeadLetterFile};
use crate::formats::encode::unrepresentable;
use crate::pending::with_schema;

/// Gives a sink of text the rows that have one, and writes the others to a file of dead letters. Without such a file it
/// fails with the first of them.
///
/// The letters of a cycle are on disk before the sink commits it.
pub struct DeadLetterSink {
    sink: Box<dyn Sink>,
    schema: SchemaRef,
    letters: Option<DeadLetterFile>,
    pending: VecDeque<DeadLetter>,
    refused: FaultLog,
}

impl DeadLetterSink {
    /// Puts a sink for rows of this schema behind the sieve.
    pub fn new(sink: Box<dyn Sink>, schema: &SchemaRef, letters: Option<DeadLetterFile>) -> DeadLetterSink {
        // Both count what is refused in one log.
        let (pending, refused) = (VecDeque::new(), sink.refused());
        DeadLetterSink { sink, schema: schema.clone(), letters, pending, refused }
    }

    /// The rows of a batch that have a text. Notes the others.
    fn sift(&mut self, cycle: u64, batch: Batch) -> Result<Batch, Cause> {
        let batch = Batch { rows: with_schema(batch.rows, &self.schema)?, ..batch };
        let wrong = unrepresentable(&batch.rows);
        if wrong.is_empty() {
            return Ok(batch);
        }
        let mut is_good = vec![true; batch.len()];
        for found in wrong {
            is_good[found.row] = false;
            let position = batch.positions[found.row];
            let letter = DeadLetter::new(cycle, position, &batch.rows, found.row, &found.reason);
            match self.letters {
                Some(_) => self.pending.push_back(letter),
                None => return Err(letter.unkept()),
            }
        }
        kept(&batch, &is_good).map_err(|error| {
            Cause::bug(format!(
                "rows cannot be checked for values that the \
            sink refuses: {error}"
            ))
        })
    }
}

/// The good rows of a batch.
fn kept(batch: &Batch, is_good: &[bool]) -> Result<Batch, ArrowError> {
    let numbers = |numbers: &[u32]| -> Vec<u32> {
        let kept = numbers.iter().zip(is_good).filter(|(_, is_good)| **is_good);
        kept.map(|(number, _)| *number).collect()
    };
    Ok(Batch {
        rows: filter_record_batch(&batch.rows, &BooleanArray::from(is_good.to_vec()))?,
        positions: numbers(&batch.positions).into(),
        origins: numbers(&batch.origins).into(),
    })
}

impl DelegatingSink for DeadLetterSink {
    fn inner(&self) -> &dyn Sink {
        self.sink.as_ref()
    }

    fn inner_mut(&mut self) -> &mut dyn Sink {
        self.sink.as_mut()
    }

    fn prepare(&mut self, mut output: CycleOutput) -> Result<(), Cause> {
        let cycle = output.cut.cycle;
        for stream in &mut output.streams {
            *stream = stream.take().map(|batch| self.sift(cycle, batch)).transpose()?;
        }
        self.sink.prepare(output)
    }

    fn commit(&mut self, cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        let count = self.pending.partition_point(|letter| letter.cycle <= *cycles.end());
        if let (Some(file), 1..) = (&mut self.letters, count) {
            let letters: Vec<DeadLetter> = self.pending.drain(..count).collect();
            file.keep(&letters, &self.refused)?;
        }
        self.sink.commit(cycles)
    }

    fn refused(&self) -> FaultLog {
        self.refused.clone()
    }

    fn may_block(&self) -> bool {
        self.letters.is_some() || self.sink.may_block()
    }
}
