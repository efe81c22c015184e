//! Durable sources that continue after a restart.

use std::sync::Arc;

use parking_lot::Mutex;
use tidemill_connect::file::FileSource;
use tidemill_core::source::{Polled, Source, SourceOffsets, note_offsets};

use crate::fetch::support::{PATIENCE, csv, drain, settings};
use tidemill_testing::file_server::{Server, part};

/// Reads at least one batch; how many rows, and the offsets behind them.
fn begin(url: &str) -> (usize, SourceOffsets) {
    let mut wanted = settings(url);
    wanted.batch_rows = 100;
    let mut source = FileSource::open(wanted).unwrap();
    let (start, mut offsets) = (std::time::Instant::now(), SourceOffsets::new());
    loop {
        assert!(start.elapsed() < PATIENCE);
        if let Polled::Rows(rows) = source.poll(std::time::Duration::from_millis(100)).unwrap() {
            note_offsets(&mut offsets, source.offsets());
            return (rows.num_rows(), offsets);
        }
    }
}

fn continued(url: &str, offsets: &SourceOffsets) -> Result<(Vec<i64>, SourceOffsets), String> {
    let mut source = FileSource::open(settings(url)).unwrap();
    let run = |source: &mut FileSource| {
        source.resume(offsets)?;
        drain(source)
    };
    let rows = run(&mut source).map_err(|cause| cause.message.to_string())?;
    let mut reached = offsets.clone();
    note_offsets(&mut reached, source.offsets());
    Ok((rows, reached))
}

#[test]
fn what_was_read_is_not_read_again_and_must_be_the_same() {
    let content = Arc::new(Mutex::new(csv(1000)));
    let served = Arc::clone(&content);
    let server = Server::start(move |request, stream| {
        let content = served.lock().clone();
        part(request, stream, content.as_bytes(), &format!("\"{}\"", content.len()))
    });
    let url = server.url("a.csv?token=secret");
    let (rows, offsets) = begin(&url);
    assert!(rows > 0 && rows < 1000);
    assert!(!format!("{offsets:?}").contains("secret"));
    let (left, done) = continued(&url, &offsets).unwrap();
    assert_eq!(left, (rows as i64..1000).collect::<Vec<_>>());
    // All was read: nothing is left, unless it grows.
    assert_eq!(continued(&url, &done).unwrap().0, [0i64; 0]);
    *content.lock() = csv(1010);
    assert_eq!(continued(&url, &done).unwrap().0, (1000..1010).collect::<Vec<_>>());
    // Rows that are in a journal are no longer in the file.
    *content.lock() = csv(1000).replace('7', "8");
    let message = continued(&url, &done).unwrap_err();
    assert!(message.contains("the file has changed since its rows were journaled"), "{message}");
    assert!(continued(&url, &offsets).unwrap_err().contains("the file has changed"));
    // Another file than the one that was partly read.
    let message = continued(&server.url("b.csv"), &offsets).unwrap_err();
    assert!(message.contains("/a.csv: the file was partly read") && !message.contains("secret"), "{message}");
    assert_eq!(continued(&server.url("b.csv"), &done).unwrap().0.len(), 1000, "a new one");
}
