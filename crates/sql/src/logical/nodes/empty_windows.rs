//! `empty => true` or `empty => INTERVAL '1 hour'` in a window by time: windows without rows are written, too.

use datafusion::common::{Result, plan_err};
use tidemill_operators::{EMPTY_WINDOWS_MAX, EmptyWindows};

use super::call_arguments::external;
use super::window_assign::WindowKind;
use crate::arguments::{Arguments, Value};
use crate::refusal::refuse;

/// The name of the argument.
pub(super) const EMPTY: &str = "empty";

/// How many windows without rows a key gets in a row, if nothing else is said.
const WINDOWS: i64 = 1_000;

/// What a call says of windows without rows.
pub(super) fn empty_windows(arguments: &Arguments, kind: WindowKind) -> Result<Option<EmptyWindows>> {
    let slide_ns = match (arguments.get(EMPTY), kind) {
        (None | Some(Value::Boolean(false)), _) => return Ok(None),
        (_, WindowKind::Session { .. }) => {
            return Err(refuse(
                "a session begins with a row, so none is empty",
                "use tumble or hop with empty => true",
            ));
        }
        (_, WindowKind::Tumble { size_ns, .. }) => size_ns,
        (_, WindowKind::Hop { slide_ns, .. }) => slide_ns,
    };
    let windows_max = match arguments.get(EMPTY) {
        Some(Value::Boolean(_)) => WINDOWS,
        Some(Value::Interval(length_ns)) if *length_ns > 0 => {
            length_ns / slide_ns + (length_ns % slide_ns).min(1)
        }
        Some(value) => {
            let expected =
                "true, false, or how long a key gets empty windows after its last row, as INTERVAL '1 hour'";
            return Err(external(arguments.wrong(EMPTY, value, expected)));
        }
        None => return Ok(None),
    };
    if windows_max <= EMPTY_WINDOWS_MAX {
        Ok(Some(EmptyWindows { windows_max }))
    } else {
        plan_err!(
            "empty asks for {windows_max} windows without rows after a row, but at most {EMPTY_WINDOWS_MAX} are \
             allowed; use a shorter time, or longer windows"
        )
    }
}
