//! Words of other systems' SQL, and the same in ours: the hint of a statement that is refused and contains them.

/// Words of another system.
pub(super) struct ForeignWords {
    /// Tokens divided by blanks. `_` stands for any one token, `<number>`, `<text>` and `<name>` for one of this kind, and `(*)` for a
    /// call's arguments; all are captured.
    pub pattern: &'static str,
    /// What to write: `{1}` is the first thing captured, `{from}` the relation behind FROM.
    pub hint: &'static str,
}

const fn words(pattern: &'static str, hint: &'static str) -> ForeignWords {
    ForeignWords { pattern, hint }
}

const WINDOW_START: &str = "the window is a relation: SELECT window_start, ... FROM tumble(TABLE({from}), {1}, {2}) \
    GROUP BY window_start, window_end";
const HOP_START: &str = "the window is a relation: SELECT window_start, ... FROM hop(TABLE({from}), {1}, {2}, {3}) \
    GROUP BY window_start, window_end";
const SESSION_START: &str = "the window is a relation: SELECT window_start, ... FROM session(TABLE({from}), {1}, {2}) \
    GROUP BY window_start, window_end";
const JSON_PART: &str = "write {1} ->> 'key', or {1} #>> '{a,0,b}' for a path";
const LAMBDA: &str =
    "there are no functions without names: SELECT unnest(list) in a subquery, and compute with its rows";
const MAP: &str = "name the keys where the column is declared: STRUCT<key INT>, or a list of pairs: \
    STRUCT<key VARCHAR, value INT>[]";
const COPY_TO: &str = "write CREATE SINK name AS SELECT ... WITH (connector = 'file', path = 'file.csv')";
const PROCESSING_TIME: &str = "windows need an event time: a column with WATERMARK FOR; now() is the time at which the \
    cycle of a row was closed";
const SOURCES: &str = "write SHOW SOURCES or SHOW VIEWS";
const IMMUTABLE: &str = "remove it: the same arguments always give the same result";
const NO_INDEX: &str = "there are no indexes; joins and aggregates keep their state by key";

/// All of them; the first that fits counts, so longer ones come before their beginnings.
pub(super) const FOREIGN_WORDS: &[ForeignWords] = &[
    // ksqlDB
    words("EMIT CHANGES", "remove EMIT CHANGES: rows over a stream come as soon as they are known"),
    words(
        "EMIT FINAL",
        "remove EMIT FINAL: a window is answered once, when the watermark has passed its end",
    ),
    words("CREATE STREAM _ AS", "write CREATE VIEW {1} AS, or CREATE SINK {1} AS ... WITH (connector = ...)"),
    words("CREATE STREAM _", "write CREATE SOURCE {1} (...) WITH (connector = ..., format = ...)"),
    words("CREATE OR REPLACE STREAM _", "write CREATE OR REPLACE SOURCE {1}, or VIEW {1} if it is a query"),
    words("INSERT INTO _ VALUES", "rows come from sources: send them to one, or read them from a file"),
    words("WINDOW TUMBLING (*)", "write FROM tumble(TABLE({from}), event_time, INTERVAL '1 minute')"),
    words(
        "WINDOW HOPPING (*)",
        "write FROM hop(TABLE({from}), event_time, INTERVAL '10 seconds', INTERVAL '1 minute')",
    ),
    words("WINDOW SESSION (*)", "write FROM session(TABLE({from}), event_time, INTERVAL '5 minutes')"),
    words(
        "WITHIN <number> <name>",
        "bound the event times in ON: ... AND b.at BETWEEN a.at - INTERVAL '{1} {2}' AND a.at",
    ),
    words("LATEST_BY_OFFSET (*)", "write last_value({1})"),
    words("EARLIEST_BY_OFFSET (*)", "write first_value({1})"),
    words("COLLECT_SET (*)", "write array_agg(DISTINCT {1})"),
    words("EXTRACTJSONFIELD (*)", JSON_PART),
    words("ROWTIME", "name the column that WATERMARK FOR declares; rows have no other time"),
    words("SHOW STREAMS", SOURCES),
    words("LIST STREAMS", SOURCES),
    words("LIST TABLES", "write SHOW TABLES"),
    words("PRINT _", "write SELECT * FROM the source that reads it"),
    words(
        "CREATE CONNECTOR",
        "name the connector where it is used: CREATE SOURCE ... WITH (connector = 'kafka', ...)",
    ),
    words(
        "KAFKA_TOPIC =",
        "write WITH (connector = 'kafka', brokers = 'host:9092', topic = ..., format = 'json')",
    ),
    // Flink
    words("TUMBLE_START (*)", WINDOW_START),
    words("TUMBLE_END (*)", WINDOW_START),
    words("TUMBLE_ROWTIME (*)", WINDOW_START),
    words("HOP_START (*)", HOP_START),
    words("HOP_END (*)", HOP_START),
    words("SESSION_START (*)", SESSION_START),
    words("SESSION_END (*)", SESSION_START),
    words("GROUP BY TUMBLE (*)", WINDOW_START),
    words("GROUP BY HOP (*)", HOP_START),
    words("GROUP BY SESSION (*)", SESSION_START),
    words("TABLE ( TUMBLE (*)", "write FROM tumble(TABLE({1}), {2}, {3})"),
    words("TABLE ( HOP (*)", "write FROM hop(TABLE({1}), {2}, {3}, {4})"),
    words("TABLE ( SESSION (*)", "write FROM session(TABLE({1}), {2}, {3})"),
    words(
        "TABLE ( CUMULATE (*)",
        "there is no cumulate; write FROM tumble(TABLE({1}), {2}, {3}) for each size",
    ),
    words("DESCRIPTOR (*)", "name the column itself: {1}"),
    words("PROCTIME (*)", PROCESSING_TIME),
    words(
        "CURRENT_WATERMARK (*)",
        "a query does not see its watermark; late rows are those of late(TABLE({from}))",
    ),
    words("UNIX_TIMESTAMP (*)", "write to_unixtime({1})"),
    words("TO_TIMESTAMP_LTZ (*)", "write to_timestamp_millis({1})"),
    words("JSON_VALUE (*)", JSON_PART),
    words("JSON_QUERY (*)", JSON_PART),
    words("JSON_EXTRACT (*)", JSON_PART),
    words("TIMESTAMP_LTZ", "write TIMESTAMP; times are in UTC"),
    words("properties.bootstrap.servers", "write brokers = 'host:9092'"),
    words("scan.startup.mode", "write start = 'earliest' or start = 'latest'"),
    words("CREATE TEMPORARY _ _", "write CREATE {1} {2}; without --database nothing outlives the session"),
    words("EXECUTE STATEMENT SET", "write the sinks into one script: tidemill run FILE runs them together"),
    // RisingWave
    words(
        "EMIT ON WINDOW CLOSE",
        "remove EMIT ON WINDOW CLOSE: a window is answered once, when it has closed",
    ),
    words("FORMAT _ ENCODE _", "write format = '...' in WITH: csv, json, lines or line_protocol"),
    words("CREATE INDEX", NO_INDEX),
    words("properties.bootstrap.server", "write brokers = 'host:9092'"),
    // PostgreSQL and its relatives
    words("LIST_TRANSFORM (*)", LAMBDA),
    words("LIST_FILTER (*)", LAMBDA),
    words("READ_CSV (*)", "name the file in FROM: FROM {1}"),
    words("READ_CSV_AUTO (*)", "name the file in FROM: FROM {1}"),
    words("READ_PARQUET (*)", "name the file in FROM: FROM {1}"),
    words("READ_JSON (*)", "name the file in FROM: FROM {1}"),
    words("READ_JSON_AUTO (*)", "name the file in FROM: FROM {1}"),
    words("ISFINITE (*)", "all times are finite; write isnan({1}) for numbers that are none"),
    words("DIV", "write a / b: whole numbers are divided without a rest"),
    words("DIV ( _ , _ )", "write {1} / {2}: whole numbers are divided without a rest"),
    words("GROUP_CONCAT ( _ )", "write string_agg({1}, ',')"),
    words("STRFTIME (*)", "write to_char({1}, 'YYYY-MM-DD HH24:MI:SS')"),
    words("STRPTIME (*)", "write to_timestamp({1}, 'YYYY-MM-DD HH24:MI:SS')"),
    words("REGEXP_MATCHES (*)", "write regexp_like({1}, {2}), or regexp_match({1}, {2}) for its groups"),
    words("REGEXP_EXTRACT (*)", "write (regexp_match({1}, {2}))[1]"),
    words("MAP <", MAP),
    words("COPY _ TO", COPY_TO),
    words("COPY (*)", COPY_TO),
    words("SHOW COLUMNS FROM <name>", "write DESCRIBE {1}"),
    words("SHOW COLUMNS IN <name>", "write DESCRIBE {1}"),
    words("SHOW COLUMNS", "write DESCRIBE name"),
    words("TIME_BUCKET (*)", "write date_bin({1}, {2})"),
    words(
        "GEN_RANDOM_UUID (*)",
        "results must not be random, so that a replay gives the same; number the rows at their source",
    ),
    words("CREATE UNIQUE INDEX", NO_INDEX),
    words("CREATE EXTENSION", "there are no extensions; SHOW FUNCTIONS lists what there is"),
    words("CREATE MACRO _", "write CREATE FUNCTION {1}(parameter type) RETURNS type AS 'expression'"),
    words("RETURNS SETOF _", "write RETURNS TABLE (column {1})"),
    words("RETURNS _ IMMUTABLE", IMMUTABLE),
    words("RETURNS _ STABLE", IMMUTABLE),
    words("DROP FUNCTION IF EXISTS _ (*)", "write DROP FUNCTION IF EXISTS {1}: a name has one function"),
    words("DROP FUNCTION _ (*)", "write DROP FUNCTION {1}: a name has one function"),
    words("CREATE SCHEMA", "there is only one catalogue"),
    words("CREATE DATABASE", "a database is a folder: tidemill sql --database FOLDER"),
];
