//! Sinks in front of another sink.

use std::ops::RangeInclusive;

use crate::error::Cause;
use crate::fault_log::FaultLog;
use crate::sink::{CycleOutput, Guarantee, Sink};
use crate::sink_outage::SinkOutage;

/// A sink that changes some of what another one does. It is a [`Sink`] itself: what it does not implement here goes to the
/// other one, and so does everything that nobody changes yet.
///
/// ```
/// use tidemill_core::error::Cause;
/// use tidemill_core::{CycleOutput, DelegatingSink, Sink};
///
/// /// Counts the cycles that pass.
/// struct Counting(Box<dyn Sink>, u64);
///
/// impl DelegatingSink for Counting {
///     fn inner(&self) -> &dyn Sink {
///         self.0.as_ref()
///     }
///     fn inner_mut(&mut self) -> &mut dyn Sink {
///         self.0.as_mut()
///     }
///     fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
///         self.1 += 1;
///         self.0.prepare(output)
///     }
/// }
///
/// fn counting(sink: Box<dyn Sink>) -> Box<dyn Sink> {
///     Box::new(Counting(sink, 0))
/// }
/// ```
pub trait DelegatingSink: Send {
    /// The other sink.
    fn inner(&self) -> &dyn Sink;

    /// The other sink, to be changed.
    fn inner_mut(&mut self) -> &mut dyn Sink;

    /// As [`Sink::prepare`].
    ///
    /// # Errors
    /// As there.
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        self.inner_mut().prepare(output)
    }

    /// As [`Sink::commit`].
    ///
    /// # Errors
    /// As there.
    fn commit(&mut self, cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        self.inner_mut().commit(cycles)
    }

    /// As [`Sink::may_block`].
    fn may_block(&self) -> bool {
        self.inner().may_block()
    }

    /// As [`Sink::last_committed`].
    ///
    /// # Errors
    /// As there.
    fn last_committed(&mut self) -> Result<Option<u64>, Cause> {
        self.inner_mut().last_committed()
    }

    /// As [`Sink::away`].
    fn away(&self) -> Option<Cause> {
        self.inner().away()
    }

    /// As [`Sink::arrive`].
    ///
    /// # Errors
    /// As there.
    fn arrive(&mut self) -> Result<(), Cause> {
        self.inner_mut().arrive()
    }

    /// As [`Sink::record`].
    ///
    /// # Errors
    /// As there.
    fn record(&mut self) -> Result<(), Cause> {
        self.inner_mut().record()
    }

    /// As [`Sink::refused`].
    fn refused(&self) -> FaultLog {
        self.inner().refused()
    }

    /// As [`Sink::finish`].
    ///
    /// # Errors
    /// As there.
    fn finish(&mut self) -> Result<(), Cause> {
        self.inner_mut().finish()
    }
}

// A method of `Sink` that is missing here would do what its default does, and not what the inner sink does.
#[deny(clippy::missing_trait_methods)]
impl<S: DelegatingSink> Sink for S {
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        DelegatingSink::prepare(self, output)
    }

    fn commit(&mut self, cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        DelegatingSink::commit(self, cycles)
    }

    fn may_block(&self) -> bool {
        DelegatingSink::may_block(self)
    }

    fn guarantee(&self) -> Guarantee {
        self.inner().guarantee()
    }

    fn last_committed(&mut self) -> Result<Option<u64>, Cause> {
        DelegatingSink::last_committed(self)
    }

    fn away(&self) -> Option<Cause> {
        DelegatingSink::away(self)
    }

    fn arrive(&mut self) -> Result<(), Cause> {
        DelegatingSink::arrive(self)
    }

    fn unrecorded(&self) -> Option<u64> {
        self.inner().unrecorded()
    }

    fn record(&mut self) -> Result<(), Cause> {
        DelegatingSink::record(self)
    }

    fn refused(&self) -> FaultLog {
        DelegatingSink::refused(self)
    }

    fn outage(&self) -> SinkOutage {
        self.inner().outage()
    }

    fn stopper(&self) -> Option<Box<dyn Fn() + Send + Sync>> {
        self.inner().stopper()
    }

    fn finish(&mut self) -> Result<(), Cause> {
        DelegatingSink::finish(self)
    }
}
