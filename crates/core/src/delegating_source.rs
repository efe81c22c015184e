//! Sources in front of another source.

use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::connections::{Heard, Stretch};
use crate::error::Cause;
use crate::source::{Admission, Faults, Polled, Progress, Refused, Source, SourceOffset, SourceOffsets};
use crate::source_threads::SourceThreads;

/// A source that changes some of what another one does. It is a [`Source`] itself: what it does not implement here goes to
/// the other one, and so does everything that nobody changes yet.
///
/// ```
/// use std::time::Duration;
/// use tidemill_core::error::Cause;
/// use tidemill_core::{DelegatingSource, Polled, Source};
///
/// /// Names the pipeline in the errors of its source.
/// struct Named(Box<dyn Source>);
///
/// impl DelegatingSource for Named {
///     fn inner(&self) -> &dyn Source {
///         self.0.as_ref()
///     }
///     fn inner_mut(&mut self) -> &mut dyn Source {
///         self.0.as_mut()
///     }
///     fn poll(&mut self, wait: Duration) -> Result<Polled, Cause> {
///         self.0.poll(wait).map_err(|cause| cause.map_message(|message| format!("tolls: {message}")))
///     }
/// }
///
/// fn named(source: Box<dyn Source>) -> Box<dyn Source> {
///     Box::new(Named(source))
/// }
/// ```
pub trait DelegatingSource: Send {
    /// The other source.
    fn inner(&self) -> &dyn Source;

    /// The other source, to be changed.
    fn inner_mut(&mut self) -> &mut dyn Source;

    /// As [`Source::schema`].
    fn schema(&self) -> SchemaRef {
        self.inner().schema()
    }

    /// As [`Source::poll`].
    ///
    /// # Errors
    /// As there.
    fn poll(&mut self, wait: Duration) -> Result<Polled, Cause> {
        self.inner_mut().poll(wait)
    }

    /// As [`Source::resume`].
    ///
    /// # Errors
    /// As there.
    fn resume(&mut self, offsets: &SourceOffsets) -> Result<(), Cause> {
        self.inner_mut().resume(offsets)
    }

    /// As [`Source::admit_by`]. A source with columns of its own must not pass it on, because the admission expects these
    /// columns.
    fn admit_by(&mut self, admission: Box<dyn Admission>) -> Option<Box<dyn Admission>> {
        self.inner_mut().admit_by(admission)
    }

    /// As [`Source::offsets`].
    fn offsets(&mut self) -> Vec<SourceOffset> {
        self.inner_mut().offsets()
    }

    /// As [`Source::acknowledge`].
    fn acknowledge(&mut self, rows: u64) {
        self.inner_mut().acknowledge(rows);
    }

    /// As [`Source::connections`].
    fn connections(&mut self) -> Vec<Heard> {
        self.inner_mut().connections()
    }

    /// As [`Source::faults`].
    fn faults(&mut self) -> Faults {
        self.inner_mut().faults()
    }

    /// As [`Source::refused_rows`].
    ///
    /// # Errors
    /// As there.
    fn refused_rows(&mut self, rows: &RecordBatch, refused: &Refused) -> Result<(), Cause> {
        self.inner_mut().refused_rows(rows, refused)
    }
}

// A method of `Source` that is missing here would do what its default does, and not what the inner source does.
#[deny(clippy::missing_trait_methods)]
impl<S: DelegatingSource> Source for S {
    fn schema(&self) -> SchemaRef {
        DelegatingSource::schema(self)
    }

    fn poll(&mut self, wait: Duration) -> Result<Polled, Cause> {
        DelegatingSource::poll(self, wait)
    }

    fn offsets(&mut self) -> Vec<SourceOffset> {
        DelegatingSource::offsets(self)
    }

    fn resume(&mut self, offsets: &SourceOffsets) -> Result<(), Cause> {
        DelegatingSource::resume(self, offsets)
    }

    fn acknowledge(&mut self, rows: u64) {
        DelegatingSource::acknowledge(self, rows);
    }

    fn refuse(&mut self, last: u64) {
        self.inner_mut().refuse(last);
    }

    fn admit_by(&mut self, admission: Box<dyn Admission>) -> Option<Box<dyn Admission>> {
        DelegatingSource::admit_by(self, admission)
    }

    fn watch_connections(&mut self, silent_after: Option<Duration>) {
        self.inner_mut().watch_connections(silent_after);
    }

    fn connections(&mut self) -> Vec<Heard> {
        DelegatingSource::connections(self)
    }

    fn recorded_stretches(&mut self) -> Vec<Stretch> {
        self.inner_mut().recorded_stretches()
    }

    fn is_repeatable(&self) -> bool {
        self.inner().is_repeatable()
    }

    fn threads(&self) -> Option<SourceThreads> {
        self.inner().threads()
    }

    fn faults(&mut self) -> Faults {
        DelegatingSource::faults(self)
    }

    fn keep_bad_records(&mut self) {
        self.inner_mut().keep_bad_records();
    }

    fn refused_rows(&mut self, rows: &RecordBatch, refused: &Refused) -> Result<(), Cause> {
        DelegatingSource::refused_rows(self, rows, refused)
    }

    fn progress(&self) -> Progress {
        self.inner().progress()
    }

    fn is_finite(&self) -> bool {
        self.inner().is_finite()
    }
}
