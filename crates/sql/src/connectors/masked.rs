//! A source and a sink whose messages do not show the values behind `${...}`.

use std::ops::RangeInclusive;
use std::time::Duration;

use tidemill_engine::{
    Cause, CycleOutput, DelegatingSink, DelegatingSource, Faults, Polled, Sink, Source, SourceOffsets,
};

use crate::statement::Secrets;

/// A source with such values in its options.
pub(super) struct MaskedSource {
    pub source: Box<dyn Source>,
    pub secrets: Secrets,
}

impl DelegatingSource for MaskedSource {
    fn inner(&self) -> &dyn Source {
        self.source.as_ref()
    }

    fn inner_mut(&mut self) -> &mut dyn Source {
        self.source.as_mut()
    }

    fn poll(&mut self, wait: Duration) -> Result<Polled, Cause> {
        self.source.poll(wait).map_err(|cause| self.secrets.mask_cause(cause))
    }

    fn resume(&mut self, offsets: &SourceOffsets) -> Result<(), Cause> {
        self.source.resume(offsets).map_err(|cause| self.secrets.mask_cause(cause))
    }

    fn faults(&mut self) -> Faults {
        self.secrets.mask_faults(self.source.faults())
    }
}

/// A sink with such values in its options.
pub(super) struct MaskedSink {
    pub sink: Box<dyn Sink>,
    pub secrets: Secrets,
}

impl MaskedSink {
    fn masked<T>(&mut self, run: impl FnOnce(&mut dyn Sink) -> Result<T, Cause>) -> Result<T, Cause> {
        run(self.sink.as_mut()).map_err(|cause| self.secrets.mask_cause(cause))
    }
}

impl DelegatingSink for MaskedSink {
    fn inner(&self) -> &dyn Sink {
        self.sink.as_ref()
    }

    fn inner_mut(&mut self) -> &mut dyn Sink {
        self.sink.as_mut()
    }

    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        self.masked(|sink| sink.prepare(output))
    }

    fn commit(&mut self, cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        self.masked(|sink| sink.commit(cycles))
    }

    fn last_committed(&mut self) -> Result<Option<u64>, Cause> {
        self.masked(|sink| sink.last_committed())
    }

    fn away(&self) -> Option<Cause> {
        self.sink.away().map(|cause| self.secrets.mask_cause(cause))
    }

    fn arrive(&mut self) -> Result<(), Cause> {
        self.masked(|sink| sink.arrive())
    }

    fn record(&mut self) -> Result<(), Cause> {
        self.masked(|sink| sink.record())
    }

    fn finish(&mut self) -> Result<(), Cause> {
        self.masked(|sink| sink.finish())
    }
}
