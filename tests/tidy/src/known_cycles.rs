//! The circles that the rule `cycles` still lets pass.

/// A folder, and the modules in it that import each other. The list may only become shorter: a module that is in no circle
/// any more is a finding, too.
pub const KNOWN: &[(&str, &[&str])] = &[
    ("crates/cli/src", &["exit", "interrupt", "linear_road", "sql"]),
    ("crates/cli/src/sql", &["background", "execute", "live", "notices"]),
    ("crates/connect/src", &["files", "infer"]),
    ("crates/connect/src/formats", &["ndjson", "ndjson_keys"]),
    ("crates/connect/src/formats", &["values", "vectors"]),
    ("crates/connect/src/formats/line_protocol", &["alike", "points"]),
    ("crates/engine/src", &["admission", "feed", "intake"]),
    (
        "crates/sql/src",
        &[
            "arguments",
            "expression",
            "extension",
            "finish",
            "first_rows",
            "foreign_aggregate",
            "logical",
            "pair_condition",
            "prepared",
            "settings",
            "statement",
            "steps",
            "text_error",
            "translate",
            "view",
        ],
    ),
    (
        "crates/sql/src/connectors",
        &["http", "journal", "kafka", "line_protocol", "sinks", "sockets", "sources"],
    ),
    ("crates/sql/src/logical", &["adaptive_regions", "process_call", "relations", "split_call"]),
    ("crates/sql/src/statement", &["create_process", "explain", "insert", "read"]),
    ("crates/sql/src/translate", &["project", "window_assign"]),
];
