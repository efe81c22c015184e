//! Windows without rows: the operator gets one of the times of the sources' rows for each pane (decision 0104).

use std::sync::Arc;
use std::time::Duration;

use tidemill_engine::{Cause, Producer, StreamRef};
use tidemill_operators::{AggregateSpec, Combine, EmptyWindows, WindowSpec, combined_schema};

use crate::stream::Stream;

/// The windows that a key gets until this long after its last window with rows.
pub(crate) fn windows_in(reach: Duration, window: &WindowSpec) -> EmptyWindows {
    let windows = reach.as_nanos().div_ceil(window.slide_ns.max(1) as u128);
    EmptyWindows { windows_max: i64::try_from(windows).unwrap_or(i64::MAX) }
}

impl Stream {
    /// For each source of its rows, one row for each pane of the windows in which a batch of the source has rows.
    pub(crate) fn source_times(&self, window: &WindowSpec) -> Result<Vec<StreamRef>, Cause> {
        self.sources.iter().map(|source| self.times_of(*source, window)).collect()
    }

    fn times_of(&self, source: usize, window: &WindowSpec) -> Result<StreamRef, Cause> {
        let build = &mut *self.build.borrow_mut();
        let stream = StreamRef { producer: Producer::Source(source), port: 0 };
        let time = build.sources[source].feed.event_time.map(|event_time| event_time.column);
        let (Some(time), Some(schema)) = (time, build.plan.schema(stream)) else {
            return Err(Cause::bug("a window over a source without event time"));
        };
        let spec = AggregateSpec {
            keys: Vec::new(),
            calls: Vec::new(),
            names: Vec::new(),
            input: Arc::clone(schema),
            partial_input: false,
            groups_max: usize::MAX,
        };
        let window = WindowSpec { time, ..*window };
        let output = combined_schema(&spec, Some(&window))?;
        Combine::new(&spec, Some(&window))?;
        Ok(build.transform("times of rows", stream, &output, move || {
            Box::new(Combine::new(&spec, Some(&window)).expect("checked when it was planned"))
        }))
    }
}
