//! Stage: from bytes to columns, on one thread.

use std::collections::VecDeque;
use std::time::Instant;

use anyhow::{Result, ensure};
use tidemill_connect::formats::RecordDecoder;
use tidemill_connect::formats::line_protocol::LineProtocolDecoder;

use crate::points::{self, PIECE_BYTES};
use crate::report;

pub fn measure(messages: u64) -> Result<()> {
    let text = points::text(0, messages, 100_000);
    for is_dictionary in [false, true] {
        let mut decoder =
            LineProtocolDecoder::new(points::decoder_settings(is_dictionary), Default::default())?;
        let (rows, time) = report::best_of(5, || {
            let (mut rows, mut batches, start) = (0, VecDeque::new(), Instant::now());
            for piece in text.chunks(PIECE_BYTES) {
                decoder.decode(piece, &mut batches)?;
                rows += batches.drain(..).map(|batch| batch.num_rows() as u64).sum::<u64>();
            }
            Ok((rows, start.elapsed()))
        })?;
        ensure!(rows == messages && decoder.faults().count == 0, "{rows} of {messages} messages");
        let bytes = text.len() as u64;
        let tags = if is_dictionary { "tags as dictionaries" } else { "tags as texts" };
        report::speed(&format!("parsing, {tags}"), rows, bytes, time, &format!("{} B/message", bytes / rows));
    }
    Ok(())
}
