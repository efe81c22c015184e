//! What a summary says of lines that were left out.

use tidemill_trip_grouping::trip_file::BadLines;

use crate::quantity::counted;

/// How many there are, and the first of them; nothing if there are none.
pub(super) fn bad_lines(bad_lines: &BadLines) -> String {
    if bad_lines.count == 0 {
        return String::new();
    }
    let examples: String = bad_lines.examples.iter().map(|example| format!("\n  {example}")).collect();
    format!("\n{} left out:{examples}", counted(bad_lines.count, "bad line"))
}
