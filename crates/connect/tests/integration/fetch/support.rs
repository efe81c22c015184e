//! What the tests read and expect.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidemill_connect::file::{FileSettings, FileSource};
use tidemill_core::arrow::array::cast::AsArray;
use tidemill_core::arrow::array::types::Int64Type;
use tidemill_core::arrow::schema::{DataType, Field, Schema, SchemaRef};
use tidemill_core::error::Cause;
use tidemill_core::source::{Polled, Source};

pub const PATIENCE: Duration = Duration::from_secs(300);

pub fn ids() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, true)]))
}

/// Settings for a file with the column `id`.
pub fn settings(url: &str) -> FileSettings {
    let mut settings = FileSettings::new(url);
    settings.schema = Some(ids());
    settings
}

/// `id`, and the numbers from 0.
pub fn csv(rows: usize) -> String {
    let numbers = (0..rows).map(|row| format!("{row}\n"));
    std::iter::once("id\n".to_owned()).chain(numbers).collect()
}

/// The first column of all rows of a source that ends.
pub fn drain(source: &mut dyn Source) -> Result<Vec<i64>, Cause> {
    let (start, mut found) = (Instant::now(), Vec::new());
    loop {
        assert!(start.elapsed() < PATIENCE, "the source does not end");
        match source.poll(Duration::from_millis(100))? {
            Polled::Rows(rows) => found.extend(rows.column(0).as_primitive::<Int64Type>().values()),
            Polled::Nothing | Polled::Idle => {}
            Polled::Ended => return Ok(found),
            other => panic!("{other:?}"),
        }
    }
}

/// All rows of a file with the column `id`.
pub fn read(settings: FileSettings) -> Result<Vec<i64>, Cause> {
    drain(&mut FileSource::open(settings)?)
}

/// The message of why a file cannot be read, which never shows a secret.
pub fn refusal(settings: FileSettings) -> String {
    let message = read(settings).expect_err("the file cannot be read").message.to_string();
    let without_names = message.replace("s3_secret_key", "").replace("the secret key", "");
    assert!(!without_names.contains("secret"), "{message}");
    message
}

/// That a message begins and ends so.
pub fn assert_told(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "'{part}' is missing in: {message}");
    }
}
