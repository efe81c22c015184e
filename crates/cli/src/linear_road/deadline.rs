//! A deadline: as an argument, and what was late.

use std::fmt::Write;
use std::time::Duration;

use tidemill_engine::{Counter, Status};

use crate::quantity::{count, time};

/// The longest that makes sense.
const LONGEST: Duration = Duration::from_secs(3600);

/// A time with its unit, such as `20 ms`, `500 us` or `1.5 s`.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit_s = match &text[digits.len()..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return Err("give a number and its unit, such as '20 ms', '500 us' or '1 s'".to_owned()),
    };
    let number: f64 = digits.trim().parse().map_err(|_| format!("'{}' is not a number", digits.trim()))?;
    let time = Duration::try_from_secs_f64(number * unit_s).unwrap_or_default();
    if time.is_zero() || time > LONGEST {
        Err("it must be more than 0 and at most an hour".to_owned())
    } else {
        Ok(time)
    }
}

/// How many events were answered too late, and what ran instead in the last of these cases.
pub(super) fn text(deadline: Duration, status: &Status) -> String {
    let (late, all) = (status.get(Counter::DeadlineMisses), status.get(Counter::EventsCommitted));
    let mut text = format!(
        "deadline        {}: {} of {} events were answered later\n",
        time(deadline),
        count(late),
        count(all)
    );
    for miss in &status.misses {
        let _ = write!(text, "    cycle {}: {}, up to {}", miss.cycle, count(miss.late), time(miss.latency));
        // A run without a pool has no trace.
        if let Some(what_ran) = &miss.what_ran {
            let _ = write!(text, ": {what_ran}");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        let parsed = ["20 ms", "500us", "1.5 s"].map(|text| parse(text).unwrap().as_micros());
        assert_eq!(parsed, [20_000, 500, 1_500_000]);
        for wrong in ["", "20", "ms", "-1 ms", "0 s", "nan s", "1e9 s", "2 h", "20 m s"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
