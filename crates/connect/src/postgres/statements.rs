//! The statements that a sink sends, as text.

use arrow_schema::Schema;
use tidemill_core::Cause;

use super::column::type_name;
use super::settings::PostgresSinkSettings;
use crate::formats::encode::must_differ;

/// PostgreSQL truncates longer names.
const NAME_BYTES_MAX: usize = 63;
const ROW_NUMBER: &str = "tidemill_row";

pub(super) const CREATE_COMMITS: &str = "CREATE TABLE IF NOT EXISTS tidemill_commits (sink text PRIMARY KEY, \
     run bigint NOT NULL, cycle bigint, committed_at timestamptz NOT NULL DEFAULT now())";

/// The default table for rows that PostgreSQL refuses.
fn create_dead_letters(table: &str) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {table} (sink text NOT NULL, cycle bigint NOT NULL, position bigint NOT NULL, \
         reason text NOT NULL, row_json json NOT NULL, refused_at timestamptz NOT NULL DEFAULT now())"
    )
}

/// Settings of each session: a commit survives the server, and a session whose client has gone ends soon, so that its
/// locks do not block the next run.
pub(super) const SETTINGS: &str = "SELECT set_config('synchronous_commit', 'on', false) \
     WHERE current_setting('synchronous_commit') = 'off'; \
     SET idle_in_transaction_session_timeout = '60s'; SET tcp_keepalives_idle = 15; \
     SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 4";

/// A name in quotes.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text in quotes.
pub(super) fn literal(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

fn checked(name: &str) -> Result<&str, Cause> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains('\0') {
        Err(Cause::user(format!(
            "'{name}' cannot be a name in PostgreSQL, because names have 1 to {NAME_BYTES_MAX} bytes; choose \
             another with AS"
        )))
    } else {
        Ok(name)
    }
}

/// The statements for a table and the rows' columns.
pub(super) struct Statements {
    pub table: String,
    columns: Vec<String>,
    keys: Vec<String>,
    create: String,
    /// The sink's name, in quotes.
    pub sink: String,
    /// The table for rows that are refused, in quotes, if there is one.
    pub dead_letters: Option<String>,
}

/// The name of a table in quotes, with its schema if one is given.
pub(super) fn table_name(name: &str) -> Result<String, Cause> {
    let parts = name.splitn(2, '.').map(|part| checked(part).map(quoted));
    Ok(parts.collect::<Result<Vec<String>, Cause>>()?.join("."))
}

impl Statements {
    pub fn new(settings: &PostgresSinkSettings, schema: &Schema) -> Result<Statements, Cause> {
        must_differ(schema, "PostgreSQL")?;
        let table = table_name(&settings.table)?;
        let dead_letters = settings.dead_letters.as_deref().map(table_name).transpose()?;
        let mut columns = Vec::new();
        let mut definitions = Vec::new();
        for field in schema.fields() {
            let name = quoted(checked(field.name())?);
            definitions.push(format!("{name} {}", type_name(field.name(), field.data_type())?));
            columns.push(name);
        }
        let keys: Vec<String> = settings.key.iter().map(|name| quoted(name)).collect();
        if !keys.is_empty() {
            definitions.push(format!("PRIMARY KEY ({})", keys.join(", ")));
        }
        if settings.sink.is_empty() || settings.sink.contains('\0') {
            return Err(Cause::user("a sink in PostgreSQL needs a name"));
        }
        let create = format!("CREATE TABLE IF NOT EXISTS {table} ({})", definitions.join(", "));
        Ok(Statements { table, columns, keys, create, sink: literal(&settings.sink), dead_letters })
    }

    pub fn exists(&self, quoted_name: &str) -> String {
        format!("SELECT to_regclass({}) IS NOT NULL", literal(quoted_name))
    }

    pub fn create_table(&self) -> &str {
        &self.create
    }

    /// Creates the table for refused rows, if they are kept in one.
    pub fn create_dead_letters(&self) -> Option<String> {
        self.dead_letters.as_deref().map(create_dead_letters)
    }

    /// Inserts refused rows there: cycles, positions, reasons and rows, each as an array.
    pub fn insert_dead_letters(&self) -> Option<String> {
        self.dead_letters.as_ref().map(|table| {
            format!(
                "INSERT INTO {table} (sink, cycle, position, reason, row_json) \
                 SELECT {}, letter.cycle, letter.position, letter.reason, letter.row_json::json \
                 FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[]) \
                 AS letter (cycle, position, reason, row_json)",
                self.sink
            )
        })
    }

    pub fn describe(&self) -> String {
        format!("SELECT * FROM {} LIMIT 0", self.table)
    }

    /// Whether the table has rows.
    pub fn has_rows(&self) -> String {
        format!("SELECT EXISTS (SELECT FROM {})", self.table)
    }

    /// The table into which COPY writes rows that replace others.
    pub fn create_gathered(&self) -> Option<String> {
        (!self.keys.is_empty()).then(|| {
            format!(
                "CREATE TEMP TABLE tidemill_rows ON COMMIT DELETE ROWS AS SELECT {}, 0::bigint AS {ROW_NUMBER} \
                 FROM {} WITH NO DATA",
                self.columns.join(", "),
                self.table
            )
        })
    }

    pub fn copy(&self) -> String {
        let columns = self.columns.join(", ");
        if self.keys.is_empty() {
            format!("COPY {} ({columns}) FROM STDIN (FORMAT binary)", self.table)
        } else {
            format!("COPY pg_temp.tidemill_rows ({columns}, {ROW_NUMBER}) FROM STDIN (FORMAT binary)")
        }
    }

    /// Moves the gathered rows; the last one of each key counts.
    pub fn upsert(&self) -> Option<String> {
        if self.keys.is_empty() {
            return None;
        }
        let (columns, keys) = (self.columns.join(", "), self.keys.join(", "));
        let values = self.columns.iter().filter(|column| !self.keys.contains(column));
        let values: Vec<String> = values.map(|column| format!("{column} = EXCLUDED.{column}")).collect();
        let action = if values.is_empty() {
            "NOTHING".to_owned()
        } else {
            format!("UPDATE SET {}", values.join(", "))
        };
        Some(format!(
            "INSERT INTO {} ({columns}) SELECT DISTINCT ON ({keys}) {columns} FROM pg_temp.tidemill_rows \
             ORDER BY {keys}, {ROW_NUMBER} DESC ON CONFLICT ({keys}) DO {action}",
            self.table
        ))
    }

    /// Makes this run the only one that may write; returns its number and the last cycle.
    pub fn take_over(&self, resume: bool) -> String {
        let cycle = if resume { "tidemill_commits.cycle" } else { "NULL" };
        format!(
            "INSERT INTO tidemill_commits (sink, run) VALUES ({}, 1) ON CONFLICT (sink) DO UPDATE \
             SET run = tidemill_commits.run + 1, cycle = {cycle} RETURNING run, cycle",
            self.sink
        )
    }

    /// The run that may write and the last cycle, after all transactions on them have ended.
    pub fn look(&self) -> String {
        format!("SELECT run, cycle FROM tidemill_commits WHERE sink = {} FOR UPDATE", self.sink)
    }

    /// Begins a transaction that advances from one cycle to another; changes nothing if another run may write.
    pub fn begin(&self, run: i64, before: Option<i64>, cycle: i64) -> String {
        let before = before.map_or("IS NULL".to_owned(), |before| format!("= {before}"));
        format!(
            "BEGIN; UPDATE tidemill_commits SET cycle = {cycle}, committed_at = now() \
             WHERE sink = {} AND run = {run} AND cycle {before}",
            self.sink
        )
    }
}
