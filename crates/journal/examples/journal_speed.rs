//! How fast a journal takes and gives rows, beside plain writing of as many bytes: `journal_speed FOLDER [GIB]`.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use tidemill_journal::{Journal, StreamSettings};

const ROWS: usize = 1000;
const SYNC_EVERY: usize = 64;
const ROUNDS: usize = 3;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().unwrap_or_else(|| "/dev/shm".into());
    let gib: f64 = arguments.next().map_or(Ok(1.0), |gib| gib.parse())?;
    let rows = batch();
    let folder = tempfile::tempdir_in(folder)?;
    let bytes = message_bytes(&rows, folder.path())?;
    let batches = (gib * (1_u64 << 30) as f64) as usize / bytes;
    println!("{ROWS} rows of {} bytes, {batches} batches, {ROUNDS} rounds; GB/s", bytes / ROWS);
    for _ in 0..ROUNDS {
        for sync in [false, true] {
            let plain = plain_write(folder.path(), bytes, batches, sync)?;
            let (append, read) = journal(folder.path(), &rows, bytes, batches, sync)?;
            let every = if sync { "synced every 64" } else { "not synced" };
            let ratio = append / plain;
            println!(
                "{every:16} plain pwrite {plain:5.2}  append {append:5.2} ({ratio:4.2})  read {read:6.2}"
            );
        }
    }
    Ok(())
}

/// Rows of about 500 bytes: ten numbers and a text.
fn batch() -> RecordBatch {
    let number = |seed: i64| Int64Array::from_iter_values((0..ROWS as i64).map(|row| row * 31 + seed));
    let mut columns: Vec<(String, ArrayRef)> =
        (0..10).map(|at| (format!("number_{at}"), Arc::new(number(at)) as ArrayRef)).collect();
    let text = "the quick brown fox jumps over the lazy dog ".repeat(9) + "and sleeps all day long";
    columns.push(("text".into(), Arc::new(StringArray::from_iter_values((0..ROWS).map(|_| &text)))));
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

/// How long the record of these rows is.
fn message_bytes(rows: &RecordBatch, folder: &Path) -> Result<usize, Box<dyn std::error::Error>> {
    let journal = Journal::open(&folder.join("probe"))?;
    let (mut writer, _) = journal.stream("rows", rows.schema(), &StreamSettings::default())?;
    let before = writer.progress().bytes();
    writer.append(rows, 0, None)?;
    Ok((writer.progress().bytes() - before) as usize)
}

fn plain_write(folder: &Path, bytes: usize, batches: usize, sync: bool) -> std::io::Result<f64> {
    let path = folder.join("plain");
    let file = OpenOptions::new().create(true).truncate(true).write(true).open(&path)?;
    let content = vec![7_u8; bytes];
    let start = Instant::now();
    for batch in 0..batches {
        file.write_all_at(&content, (batch * bytes) as u64)?;
        if sync && batch % SYNC_EVERY == SYNC_EVERY - 1 {
            file.sync_data()?;
        }
    }
    let speed = speed(bytes * batches, start);
    std::fs::remove_file(path)?;
    Ok(speed)
}

fn journal(
    folder: &Path,
    rows: &RecordBatch,
    bytes: usize,
    batches: usize,
    sync: bool,
) -> Result<(f64, f64), Box<dyn std::error::Error>> {
    let folder = folder.join("journal");
    let journal = Journal::open(&folder)?;
    let (mut writer, mut reader) = journal.stream("rows", rows.schema(), &StreamSettings::default())?;
    let start = Instant::now();
    for batch in 0..batches {
        writer.append(rows, 0, None)?;
        if sync && batch % SYNC_EVERY == SYNC_EVERY - 1 {
            writer.sync()?;
        }
    }
    let append = speed(bytes * batches, start);
    let start = Instant::now();
    let mut position = 0;
    while let Some(record) = reader.read(position)? {
        position += record.rows.num_rows() as u64;
    }
    let read = speed(bytes * batches, start);
    assert_eq!(position, (batches * ROWS) as u64);
    drop((writer, reader, journal));
    std::fs::remove_dir_all(folder)?;
    Ok((append, read))
}

fn speed(bytes: usize, start: Instant) -> f64 {
    bytes as f64 / start.elapsed().as_secs_f64() / 1e9
}
