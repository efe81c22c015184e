//! The table of built-in formats.

use crate::statement::declared::{OptionDefault, OptionDefinition, OptionKind};
use OptionDefault::{Nothing, Value};
use OptionKind::{Boolean, Character, Choice, Integer, Names, Text};

/// A format that every program has.
#[derive(Debug)]
pub(crate) struct BuiltInFormat {
    pub name: &'static str,
    /// Other names for it, which are also endings of files.
    pub aliases: &'static [&'static str],
    pub doc: &'static str,
    /// Its options where rows are read; `None` if it cannot be read.
    pub reading: Option<&'static [OptionDefinition]>,
    /// Its options where rows are written; `None` if it cannot be written.
    pub writing: Option<&'static [OptionDefinition]>,
}

/// All of them.
pub(crate) static BUILT_IN: &[BuiltInFormat] = &[
    BuiltInFormat {
        name: "csv",
        aliases: &["tsv"],
        doc: "comma-separated values, or with another delimiter",
        reading: Some(CSV_READ),
        writing: Some(CSV_WRITTEN),
    },
    BuiltInFormat {
        name: "json",
        aliases: &["ndjson", "jsonl"],
        doc: "one JSON object per line",
        reading: Some(&[TIMESTAMP_UNIT]),
        writing: Some(&[]),
    },
    BuiltInFormat {
        name: "lines",
        aliases: &["log", "txt"],
        doc: "lines with their numbers, unchanged",
        reading: Some(&[]),
        writing: None,
    },
    BuiltInFormat {
        name: "line_protocol",
        aliases: &["influx"],
        doc: "InfluxDB line protocol",
        reading: Some(LINE_PROTOCOL),
        writing: None,
    },
    BuiltInFormat {
        name: "parquet",
        aliases: &[],
        doc: "Apache Parquet",
        reading: Some(&[]),
        writing: Some(&[]),
    },
    BuiltInFormat {
        name: "arrow",
        aliases: &["ipc", "feather", "arrows"],
        doc: "Arrow IPC, also known as Feather 2",
        reading: Some(&[]),
        writing: Some(&[]),
    },
    BuiltInFormat {
        name: "table",
        aliases: &[],
        doc: "aligned columns, for people",
        reading: None,
        writing: Some(&[]),
    },
];

const CSV_READ: &[OptionDefinition] = &[
    OptionDefinition::new("header", Boolean, Nothing("detected"), "whether the first line names the columns"),
    OptionDefinition::new(
        "delimiter",
        Character,
        Nothing("`,`, a tab for `.tsv`; detected when the columns are inferred"),
        "the character between fields",
    ),
    OptionDefinition::new("quote", Character, Value("\""), "the character around fields"),
    OptionDefinition::new("null", Text, Value(""), "the unquoted text that means NULL"),
    OptionDefinition::new(
        "skip",
        Integer { least: 0, most: 1_000_000 },
        Nothing("0; titles are detected when the columns are inferred"),
        "the lines before the header that are left out, such as titles",
    ),
    TIMESTAMP_UNIT,
];

/// Named here, as sources apply it to their columns.
pub(crate) const TIMESTAMP_UNIT: OptionDefinition = OptionDefinition::new(
    "timestamp_unit",
    Choice(&["s", "ms", "us", "ns"]),
    Nothing("none: such a row is bad"),
    "the unit of numbers in TIMESTAMP columns, which count from 1970",
);

const CSV_WRITTEN: &[OptionDefinition] = &[
    OptionDefinition::new("header", Boolean, Value("true"), "whether the first line names the columns"),
    OptionDefinition::new(
        "delimiter",
        Character,
        Nothing("`,`, a tab for `.tsv`"),
        "the character between fields",
    ),
];

const LINE_PROTOCOL: &[OptionDefinition] = &[
    OptionDefinition::new(
        "precision",
        Choice(&["ns", "us", "ms", "s"]),
        Value("ns"),
        "the unit of times where a request does not state a `precision`",
    ),
    OptionDefinition::new(
        "measurements",
        Names,
        Nothing("all"),
        "the measurements to read, as in `'cpu, disk'`; other points are skipped",
    ),
    OptionDefinition::new(
        "time_column",
        Text,
        Value("time"),
        "the column for the time of a point, if it is declared",
    ),
    OptionDefinition::new(
        "measurement_column",
        Text,
        Value("measurement"),
        "the column for the measurement of a point, if it is declared",
    ),
    OptionDefinition::new(
        "line_bytes_max",
        Integer { least: 1, most: 1 << 20 },
        Value("65536"),
        "the longest point, in bytes",
    ),
    OptionDefinition::new(
        "values_max",
        Integer { least: 1, most: 65_536 },
        Value("1024"),
        "the maximum number of tags and fields of a point",
    ),
];
