//! One statement that reads rows as text.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use futures_util::StreamExt;
use tidemill_core::Cause;
use tokio::runtime::Builder;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error};

use super::database::Database;
use super::failure::open_failure;
use super::statements::{quoted, table_name};
use super::tls::MakeTls;

/// What stands for NULL; texts stand in quotes.
pub(super) const NULL: &str = "\\N";
/// Values are written in one form, whatever the server's settings; whoever waits for a lock does not wait for ever.
const SETTINGS: &str = "SET TimeZone = 'UTC'; SET DateStyle = 'ISO'; SET extra_float_digits = 1; \
     SET IntervalStyle = 'iso_8601'; SET default_transaction_read_only = on";
/// How long the server may take for the next piece of an answer.
const ANSWER_WAIT: Duration = Duration::from_secs(120);

/// How much text is passed on at once.
const PIECE_BYTES: usize = 256 * 1024;

/// Which rows are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PostgresRows {
    /// Those of a table or view, `table` or `schema.table` with exact spelling.
    Table(String),
    /// The answer to a query.
    Query(String),
}

impl PostgresRows {
    /// What stands behind FROM.
    fn relation(&self) -> Result<String, Cause> {
        match self {
            PostgresRows::Table(name) => table_name(name),
            PostgresRows::Query(query) => {
                Ok(format!("({}) AS \"rows of the query\"", query.trim().trim_end_matches(';')))
            }
        }
    }

    /// The columns, with the types in which they are read. Types of PostgreSQL that have no counterpart are read as texts.
    ///
    /// # Errors
    /// [`Cause::user`] if the table, the query or the URL is invalid, or a column is a `numeric` without a precision;
    /// [`Cause::operation`] if the server cannot be reached.
    pub fn columns(&self, url: &str) -> Result<SchemaRef, Cause> {
        let database = Database::parse(url)?;
        let select = format!("SELECT * FROM {}", self.relation()?);
        let described = on_a_thread(move || {
            let server = database.server.clone();
            let statement = run(async {
                let client = connect(&database).await?;
                client.prepare(&select).await
            })?;
            let statement = statement.map_err(|error| open_failure(error, &server).into_cause(&server))?;
            let columns = statement.columns().iter();
            let field = |column: &tokio_postgres::Column| {
                let data_type = data_type(column.name(), column.type_(), column.type_modifier())?;
                Ok(Field::new(column.name(), data_type, true))
            };
            columns.map(field).collect::<Result<Vec<Field>, Cause>>()
        })?;
        Ok(Arc::new(Schema::new(described)))
    }
}

/// The type in which a column is read.
fn data_type(name: &str, column: &Type, modifier: i32) -> Result<DataType, Cause> {
    Ok(match *column {
        Type::BOOL => DataType::Boolean,
        Type::INT2 => DataType::Int16,
        Type::INT4 => DataType::Int32,
        Type::INT8 => DataType::Int64,
        Type::FLOAT4 => DataType::Float32,
        Type::FLOAT8 => DataType::Float64,
        Type::DATE => DataType::Date32,
        Type::TIME => DataType::Time64(TimeUnit::Nanosecond),
        Type::TIMESTAMP => DataType::Timestamp(TimeUnit::Nanosecond, None),
        Type::TIMESTAMPTZ => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
        // Precision and scale, behind a header of four bytes.
        Type::NUMERIC if modifier >= 4 && (modifier - 4) >> 16 <= 38 => {
            let (precision, scale) = ((modifier - 4) >> 16, (modifier - 4) & 0x7ff);
            DataType::Decimal128(precision as u8, scale as i8)
        }
        Type::NUMERIC => {
            return Err(Cause::user(format!(
                "column '{name}' is a numeric without a precision; declare the columns, with a type such as \
                 DECIMAL(20, 4), or cast it in a query"
            )));
        }
        _ => DataType::Utf8,
    })
}

/// A statement that can be run again.
pub(super) struct Reading {
    database: Database,
    place: String,
    copy: String,
}

impl Reading {
    /// Reads these columns of the rows, in this order.
    pub fn new(url: &str, rows: &PostgresRows, schema: &Schema) -> Result<Reading, Cause> {
        let database = Database::parse(url)?;
        let columns: Vec<String> = schema.fields().iter().map(|field| quoted(field.name())).collect();
        let copy = format!(
            "COPY (SELECT {} FROM {}) TO STDOUT (FORMAT csv, FORCE_QUOTE *, NULL '{NULL}')",
            columns.join(", "),
            rows.relation()?
        );
        Ok(Reading { place: format!("PostgreSQL at {}", database.server), database, copy })
    }

    /// The server, for messages.
    pub fn server(&self) -> &str {
        &self.place
    }

    /// Passes the text on, piece by piece, and `None` at its end. Ends early if `take` says so.
    pub fn read(&self, mut take: impl FnMut(Option<&[u8]>) -> Result<bool, Cause>) -> Result<(), Cause> {
        let server = &self.database.server;
        let failed = |error: Error| open_failure(error, server).into_cause(server);
        run(async {
            let client = connect(&self.database).await.map_err(failed)?;
            let rows = client.copy_out(&self.copy).await.map_err(failed)?;
            let mut rows = pin!(rows);
            // The server sends each row by itself.
            let mut text = Vec::with_capacity(2 * PIECE_BYTES);
            loop {
                let next = tokio::time::timeout(ANSWER_WAIT, rows.next()).await.map_err(|_| {
                    Cause::operation(format!("{}: no answer within {} s", self.place, ANSWER_WAIT.as_secs()))
                })?;
                match next {
                    Some(Ok(bytes)) => text.extend_from_slice(&bytes),
                    Some(Err(error)) => return Err(failed(error)),
                    None => {
                        if take(Some(&text))? {
                            take(None)?;
                        }
                        return Ok(());
                    }
                }
                if text.len() >= PIECE_BYTES {
                    if !take(Some(&text))? {
                        return Ok(());
                    }
                    text.clear();
                }
            }
        })?
    }
}

async fn connect(database: &Database) -> Result<Client, Error> {
    let (client, connection) = database.config.connect(MakeTls(database.tls.clone())).await?;
    tokio::spawn(async move {
        // The connection hands its failure to the requests that wait.
        let _ = connection.await;
    });
    client.batch_execute(SETTINGS).await?;
    Ok(client)
}

fn run<T>(work: impl Future<Output = T>) -> Result<T, Cause> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(work);
    // There is no wait for a name that is being looked up.
    runtime.shutdown_background();
    Ok(done)
}

/// The caller's thread may be one on which no runtime can be run.
fn on_a_thread<T: Send>(work: impl FnOnce() -> Result<T, Cause> + Send) -> Result<T, Cause> {
    let done = std::thread::scope(|scope| scope.spawn(work).join());
    done.unwrap_or_else(|_| Err(Cause::bug("asking PostgreSQL for its columns panicked")))
}
