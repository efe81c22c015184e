//! `max_ahead = '1 hour'`: how far the event times of a source may be ahead of the time of day.

use std::time::Duration;

use tidemill_engine::FeedSettings;

use super::source_connector::Liveness;
use crate::statement::declared::{OptionDefault, OptionDefinition, OptionKind, OptionValues};
use crate::text::TextError;

pub(super) const MAX_AHEAD: OptionDefinition = OptionDefinition::new(
    "max_ahead",
    OptionKind::DurationOr(&["none"]),
    OptionDefault::Nothing(
        "1 hour for input that comes as it happens (also standard input and pipes), none for files that are read once",
    ),
    "rows whose event time is further ahead of the clock than this are refused; `'none'` removes the bound",
);

/// The bound of a source; `None` if there is none.
///
/// Input that comes, or may come, as it happens has one by default, because a single time in the far future would make
/// everything after it late. Stored input (a file that is read once) must give the same result on any day, so it cannot have one.
pub(super) fn max_ahead(
    options: &OptionValues<'_>,
    liveness: Liveness,
    has_event_time: bool,
) -> Result<Option<Duration>, TextError> {
    if !options.is_given("max_ahead") {
        return Ok((liveness != Liveness::Stored && has_event_time).then_some(FeedSettings::MAX_AHEAD));
    }
    let given = options.given();
    if liveness == Liveness::Stored {
        let error = given.error(
            "max_ahead",
            "this input is finite, and its result must not depend on the time at which it is read",
        );
        return Err(error.with_hint("remove max_ahead; exclude rows of the far future with WHERE"));
    }
    if !has_event_time {
        let error = given.error("max_ahead", "'max_ahead' bounds the event time, but this source has none");
        return Err(error.with_hint("add WATERMARK FOR to the columns"));
    }
    Ok(options.duration("max_ahead"))
}
