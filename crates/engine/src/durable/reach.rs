//! How far streams and sinks are when a query is opened.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_core::error::Cause;
use tidemill_core::{Guarantee, Sink};
use tidemill_journal::StreamProgress;

use super::protocol::{Reach, SinkPlace};

/// What is in a stream.
pub(super) fn reach(stream: &Arc<StreamProgress>) -> Reach {
    Reach { first: stream.first(), end: stream.end() }
}

/// How far each sink is, by its own account or by our record.
pub(super) fn places(
    noted: &BTreeMap<String, u64>,
    names: &[String],
    sinks: &mut [Box<dyn Sink>],
) -> Result<Vec<SinkPlace>, Cause> {
    let place = |(name, sink): (&String, &mut Box<dyn Sink>)| {
        let remembers = sink.guarantee() == Guarantee::ExactlyOnce;
        let known = if remembers { sink.last_committed()? } else { None };
        let noted = noted.get(name).copied();
        let is_brought = remembers && noted > known;
        Ok(SinkPlace { name: name.clone(), remembers, is_brought, committed: known.max(noted) })
    };
    names.iter().zip(sinks).map(place).collect()
}
