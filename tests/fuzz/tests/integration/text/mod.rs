//! Damaged CSV and NDJSON: rows do not depend on pieces and batches; CSV is divided into fields as a slow reader does.

mod csv_oracle;

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use arrow_cast::display::array_value_to_string;
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use tidemill_connect::formats::{CsvSettings, DecoderSettings, Format, text_decoder};
use tidemill_fuzz::{cases, corpus, damage};
use tidemill_testing::random::Random;

fn schema(columns: &[(&str, DataType)]) -> SchemaRef {
    let fields = columns.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn typed() -> SchemaRef {
    schema(&[
        ("id", DataType::Int64),
        ("name", DataType::Utf8),
        ("price", DataType::Float64),
        ("at", DataType::Timestamp(TimeUnit::Nanosecond, None)),
    ])
}

fn nested() -> SchemaRef {
    let number = Arc::new(Field::new("item", DataType::Int64, true));
    let inner = vec![Field::new("x", DataType::Float64, true), Field::new("y", DataType::Utf8, true)];
    schema(&[
        ("id", DataType::Int64),
        ("name", DataType::Utf8),
        ("up", DataType::Boolean),
        ("list", DataType::List(number)),
        ("inner", DataType::Struct(inner.into())),
    ])
}

const FIRST: &[u8] = b"{\"id\": 0}\n";

/// What is read: rows as text, and how many faults; or why the input as a whole is refused.
type Rows = Result<(Vec<String>, u64), String>;

fn read(format: Format, schema: &SchemaRef, batch_rows: usize, pieces: usize, bytes: &[u8]) -> Rows {
    let csv = CsvSettings { header: Some(false), ..CsvSettings::default() };
    let mut decoder =
        text_decoder(format, DecoderSettings { schema: schema.clone(), csv, batch_rows }).unwrap();
    let mut batches = VecDeque::new();
    decoder.begin("input");
    for piece in bytes.chunks(pieces) {
        decoder.decode(piece, &mut batches).map_err(|cause| cause.to_string())?;
    }
    decoder.finish(&mut batches).map_err(|cause| cause.to_string())?;
    Ok((batches.iter().flat_map(rows).collect(), decoder.faults().count))
}

/// Each row as one text; NULL is `~`.
fn rows(batch: &RecordBatch) -> Vec<String> {
    let cell = |column: &dyn Array, row| {
        if column.is_null(row) {
            "~".to_owned()
        } else {
            array_value_to_string(column, row).unwrap_or_else(|error| error.to_string())
        }
    };
    let row = |row| batch.columns().iter().map(|column| cell(column, row)).collect::<Vec<_>>().join("|");
    (0..batch.num_rows()).map(row).collect()
}

/// Reads bytes one record at a time and in some other way, which must be the same.
fn compare(format: Format, schema: &SchemaRef, random: &mut Random, bytes: &[u8]) {
    let one_by_one = read(format.clone(), schema, 1, usize::MAX, bytes);
    let (batch_rows, pieces) = (random.one_of(&[1, 3, 1000]), random.one_of(&[1, 5, 100, usize::MAX]));
    let found = read(format, schema, batch_rows, pieces, bytes);
    let shown = String::from_utf8_lossy(bytes);
    assert_eq!(found, one_by_one, "batches of {batch_rows}, pieces of {pieces}: {shown}");
}

#[test]
fn damaged_csv_is_divided_as_by_the_slow_reader_and_gives_the_same_rows_in_any_pieces() {
    let files = corpus::contents("csv");
    let texts = schema(&["a", "b", "c", "d"].map(|name| (name, DataType::Utf8)));
    cases::run("csv", move |random| {
        let mut bytes = files[random.index(files.len())].clone();
        damage::text(random, &mut bytes, &files);
        compare(Format::Csv, &typed(), random, &bytes);
        let found = read(Format::Csv, &texts, 3, 64, &bytes);
        assert_eq!(found, Ok(csv_oracle::read(&bytes, 4)), "{}", String::from_utf8_lossy(&bytes));
    });
}

#[test]
fn damaged_json_gives_the_same_rows_in_any_pieces() {
    let files = corpus::contents("ndjson");
    cases::run("ndjson", move |random| {
        let mut bytes = files[random.index(files.len())].clone();
        damage::text(random, &mut bytes, &files);
        let schema = if random.is_once_in(2) { typed() } else { nested() };
        // The first object says how keys are written. What counts as one is not the same for a block as for a line.
        bytes.splice(..0, FIRST.iter().copied());
        compare(Format::Json, &schema, random, &bytes);
    });
}
