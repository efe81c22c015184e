//! `max_ahead = '1 hour'`: how far the event times of a source may be ahead of the time of day.

use std::time::Duration;

use crate::statement::{OptionValue, Options};
use crate::text_error::TextError;

/// The default for live sources. A clock that is not set is off by more than this, one that is set by less.
const USUAL: Duration = Duration::from_secs(3600);

/// The bound of a source; `None` if there is none.
///
/// Live input has one by default, because a single time in the far future would make everything after it late. Other
/// input (a file that is read once) must give the same result on any day, so it cannot have one.
pub(super) fn max_ahead(
    options: &Options,
    connector: &str,
    has_event_time: bool,
) -> Result<Option<Duration>, TextError> {
    let lives = match connector {
        "http" | "line_protocol" | "tcp" | "unix" | "udp" | "kafka" => true,
        "file" => options.boolean("follow")?.unwrap_or(false),
        _ => false,
    };
    let Some(given) = options.get("max_ahead") else {
        return Ok((lives && has_event_time).then_some(USUAL));
    };
    // Standard input may be either: what is at its other end is not known.
    if !lives && connector != "stdin" {
        let error = options.error(
            "max_ahead",
            "this input has an end, and its result must not depend on the day on which it is read",
        );
        return Err(error.with_hint("leave max_ahead out; WHERE leaves out rows of the far future"));
    }
    if !has_event_time {
        let error =
            options.error("max_ahead", "'max_ahead' is about the event time, and this source has none");
        return Err(error.with_hint("add WATERMARK FOR to the columns"));
    }
    match &given.value {
        OptionValue::Text(text) if text.eq_ignore_ascii_case("none") => Ok(None),
        _ => match options.duration("max_ahead")? {
            Some(bound) if !bound.is_zero() => Ok(Some(bound)),
            _ => Err(options.error("max_ahead", "say how far, as in '1 hour', or 'none' for no bound")),
        },
    }
}
