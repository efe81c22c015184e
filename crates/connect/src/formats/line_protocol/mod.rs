//! InfluxDB line protocol: `measurement,tag=value field=1.5,other=7i 1767225600000000000`, one point per line.
//!
//! - A tag or field goes into the column of its name (or of its name in another case if there is none), the measurement
//!   and the time into their own columns. What a point does not have is NULL. What has no column is left out, and
//!   reported once per name.
//! - Columns are VARCHAR (tags, strings), BIGINT and narrower integers, signed or not (`7i`, `7u`, and `7`), DOUBLE and
//!   REAL (all numbers), BOOLEAN, and one TIMESTAMP. A tag or string fits only into a VARCHAR.
//! - A backslash before a comma, blank or `=` belongs to the name or tag; before `"` or `\` to the string. Before
//!   anything else it is a backslash. A line end ends the point, even in a string.
//! - Empty lines and lines that begin with `#` are skipped. Lines may end with CR LF.
//! - Faults are: a line that is not a point, a value that does not have its column's type or is the second one for a
//!   column, NULL in a column that is NOT NULL, a time out of range, bytes that are not UTF-8, a line or point over its
//!   limits. The lines around it are kept.

mod block;
mod boolean;
mod column;
mod decoder;
mod discovery;
mod equal_shape_lines;
mod escapes;
mod marks;
mod names;
mod numbers;
mod points;
mod scan;
mod shape;
mod texts;

use tidemill_core::error::Cause;

pub use decoder::LineProtocolDecoder;
pub(crate) use discovery::discover;

/// The unit of the times in the text.
///
/// ```
/// use tidemill_connect::formats::line_protocol::Precision;
/// assert_eq!(Precision::named("ms"), Some(Precision::Milliseconds));
/// assert_eq!(Precision::named("fortnight"), None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// `ns`
    #[default]
    Nanoseconds,
    /// `us`
    Microseconds,
    /// `ms`
    Milliseconds,
    /// `s`
    Seconds,
}

impl Precision {
    /// The precision by its InfluxDB name: ns, us, ms or s; n and u as its first version wrote them.
    pub fn named(name: &str) -> Option<Precision> {
        match name {
            "ns" | "n" => Some(Precision::Nanoseconds),
            "us" | "u" => Some(Precision::Microseconds),
            "ms" => Some(Precision::Milliseconds),
            "s" => Some(Precision::Seconds),
            _ => None,
        }
    }

    fn per_second(self) -> i64 {
        match self {
            Precision::Nanoseconds => 1_000_000_000,
            Precision::Microseconds => 1_000_000,
            Precision::Milliseconds => 1_000,
            Precision::Seconds => 1,
        }
    }
}

/// How line protocol is read.
///
/// ```
/// use tidemill_connect::formats::line_protocol::LineProtocolSettings;
/// let settings = LineProtocolSettings { measurements: vec!["cpu".into()], ..Default::default() };
/// assert_eq!((settings.time_column.as_str(), settings.measurement_column.as_str()), ("time", "measurement"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineProtocolSettings {
    /// The unit of the times.
    pub precision: Precision,
    /// The column for the times, a TIMESTAMP; it need not exist.
    pub time_column: String,
    /// The column for the measurement's name, a VARCHAR; it need not exist.
    pub measurement_column: String,
    /// Points of other measurements are left out; empty: all are accepted.
    pub measurements: Vec<String>,
    /// The longest line in bytes; a longer one is a fault.
    pub line_bytes_max: usize,
    /// The most tags and fields of a point; one with more is a fault.
    pub values_max: usize,
}

impl Default for LineProtocolSettings {
    fn default() -> Self {
        LineProtocolSettings {
            precision: Precision::Nanoseconds,
            time_column: "time".to_owned(),
            measurement_column: "measurement".to_owned(),
            measurements: Vec::new(),
            line_bytes_max: 64 * 1024,
            values_max: 1024,
        }
    }
}

impl LineProtocolSettings {
    fn check(&self) -> Result<(), Cause> {
        if self.line_bytes_max == 0 || self.line_bytes_max > super::RECORD_LIMIT_BYTES {
            let limit = super::RECORD_LIMIT_BYTES;
            return Err(Cause::user(format!(
                "line_bytes_max = {}: choose 1 to {limit}",
                self.line_bytes_max
            )));
        }
        if self.values_max == 0 {
            return Err(Cause::user("values_max = 0: choose at least 1"));
        }
        Ok(())
    }
}
