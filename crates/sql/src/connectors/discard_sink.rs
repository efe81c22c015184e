//! The sink `blackhole`: takes rows and discards them, for measurements.

use std::ops::RangeInclusive;

use tidemill_engine::{Cause, CycleOutput, Sink};

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiscardSink;

impl Sink for DiscardSink {
    fn prepare(&mut self, _output: CycleOutput) -> Result<(), Cause> {
        Ok(())
    }

    fn may_block(&self) -> bool {
        false
    }

    fn commit(&mut self, _cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        Ok(())
    }
}
