//! Stage: journaling parsed messages, compared with plain writing of as many bytes in the same run.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tidemill_journal::{Journal, StreamSettings};

use crate::{points, report};

/// A sync after this many batches of 8192 messages, so after about 17 MB.
const SYNC_EVERY: usize = 8;

pub fn measure(folder: &Path, messages: u64, kind: &str) -> Result<()> {
    let folder = tempfile::tempdir_in(folder)?;
    let batches = points::batches(0, messages, 100_000)?;
    let (bytes, time) = report::best_of(3, || journal(folder.path(), &batches))?;
    let (_, plain) = report::best_of(3, || plain_write(folder.path(), bytes, batches.len()))?;
    let ratio = plain.as_secs_f64() / time.as_secs_f64();
    let plain = bytes as f64 / plain.as_secs_f64() / 1e9;
    let remark =
        format!("{} B/message; plain pwrite + fdatasync {plain:.2} GB/s, ratio {ratio:.2}", bytes / messages);
    report::speed(&format!("journal, {kind}"), messages, bytes, time, &remark);
    Ok(())
}

fn journal(folder: &Path, batches: &[arrow_array::RecordBatch]) -> Result<(u64, Duration)> {
    let folder = folder.join("journal");
    let journal = Journal::open(&folder)?;
    let (mut writer, mut reader) =
        journal.stream("points", points::schema(false), &StreamSettings::default())?;
    let before = writer.progress().bytes();
    let start = Instant::now();
    for (at, batch) in batches.iter().enumerate() {
        writer.append(batch, 0, None)?;
        if at % SYNC_EVERY == SYNC_EVERY - 1 {
            writer.sync()?;
        }
    }
    writer.sync()?;
    let time = start.elapsed();
    let bytes = writer.progress().bytes() - before;
    let mut position = 0;
    for batch in batches {
        let record = reader.read(position)?;
        ensure!(record.as_ref().is_some_and(|record| record.rows == *batch), "other rows at {position}");
        position += batch.num_rows() as u64;
    }
    drop((writer, reader, journal));
    std::fs::remove_dir_all(folder)?;
    Ok((bytes, time))
}

/// Into a new file, in pieces as large as the journal's.
fn plain_write(folder: &Path, bytes: u64, writes: usize) -> Result<((), Duration)> {
    let path = folder.join("plain");
    let file = OpenOptions::new().create(true).truncate(true).write(true).open(&path)?;
    let content = vec![7_u8; bytes as usize / writes];
    let start = Instant::now();
    for at in 0..writes {
        file.write_all_at(&content, (at * content.len()) as u64)?;
        if at % SYNC_EVERY == SYNC_EVERY - 1 {
            file.sync_data()?;
        }
    }
    file.sync_data()?;
    let time = start.elapsed();
    std::fs::remove_file(path)?;
    Ok(((), time))
}
