//! A sink that counts the rows that pass it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidemill_engine::{Cause, CycleOutput, DelegatingSink, Sink};

/// The rows of all sinks created with it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counted(Arc<AtomicU64>);

impl Counted {
    /// The sink, counting.
    pub fn sink(&self, sink: Box<dyn Sink>) -> Box<dyn Sink> {
        Box::new(CountingSink { sink, counted: self.clone() })
    }

    /// Rows so far.
    pub fn rows(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

struct CountingSink {
    sink: Box<dyn Sink>,
    counted: Counted,
}

impl DelegatingSink for CountingSink {
    fn inner(&self) -> &dyn Sink {
        self.sink.as_ref()
    }

    fn inner_mut(&mut self) -> &mut dyn Sink {
        self.sink.as_mut()
    }

    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        let rows: usize = output.streams.iter().flatten().map(|batch| batch.len()).sum();
        self.counted.0.fetch_add(rows as u64, Ordering::Relaxed);
        self.sink.prepare(output)
    }
}
