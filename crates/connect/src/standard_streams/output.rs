//! Standard output, or any other writer.

use std::io::{ErrorKind, Write};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_schema::SchemaRef;
use tidemill_core::{Cause, CycleOutput, Fault, Sink};

use crate::formats::encode::TextFormat;
use crate::pending::PendingText;

/// The complete text of the [`Cause::operation`] with which a query ends if its reader has gone, as `head` does. It is
/// not a failure: see [`is_output_closed`].
pub const OUTPUT_CLOSED: &str = "the reader of the output has closed it";

/// Whether a query ended because the reader of its output has gone.
///
/// ```
/// use tidemill_connect::standard_streams::{OUTPUT_CLOSED, is_output_closed};
/// use tidemill_core::Cause;
/// assert!(is_output_closed(&Cause::operation(OUTPUT_CLOSED)));
/// assert!(!is_output_closed(&Cause::operation("the disk is full")));
/// ```
pub fn is_output_closed(cause: &Cause) -> bool {
    cause.fault == Fault::Operation && *cause.message == *OUTPUT_CLOSED
}

/// Writes rows as text to standard output, or to another writer.
///
/// The rows of a commit are one write and one flush, so nothing of a cycle is visible before its commit. But what a
/// pipe or a terminal has received cannot be taken back, so a failed write may leave part of the last commit. A reader
/// that closes the pipe ends the query with [`OUTPUT_CLOSED`]. The program that started the query can also ask
/// [`closed`](StandardOutput::closed).
///
/// ```
/// use tidemill_connect::formats::encode::TextFormat;
/// use tidemill_connect::standard_streams::StandardOutput;
/// use tidemill_core::arrow::schema::{DataType, Field, Schema};
/// use tidemill_core::{Cause, Sink};
///
/// let schema = Schema::new(vec![Field::new("vid", DataType::Int64, false)]).into();
/// let mut output = StandardOutput::new(Vec::new(), &schema, &TextFormat::csv())?;
/// output.finish()?;
/// assert_eq!(output.into_writer(), b"vid\n");
/// # Ok::<(), Cause>(())
/// ```
pub struct StandardOutput<W: Write + Send = std::io::Stdout> {
    writer: W,
    pending: PendingText,
    /// Written with the first rows, or at the end: a query that fails at once prints nothing.
    header: Option<Vec<u8>>,
    closed: Arc<AtomicBool>,
}

impl StandardOutput {
    /// The process's standard output.
    ///
    /// # Errors
    /// [`Cause::user`] if the format cannot represent such rows.
    pub fn of_process(schema: &SchemaRef, format: &TextFormat) -> Result<Self, Cause> {
        StandardOutput::new(std::io::stdout(), schema, format)
    }
}

impl<W: Write + Send> StandardOutput<W> {
    /// Writes to this writer.
    ///
    /// # Errors
    /// [`Cause::user`] if the format cannot represent such rows.
    pub fn new(writer: W, schema: &SchemaRef, format: &TextFormat) -> Result<Self, Cause> {
        let pending = PendingText::new(schema, format.encoder(schema)?);
        let header = Some(pending.header());
        Ok(StandardOutput { writer, pending, header, closed: Arc::default() })
    }

    /// Becomes true once the reader has closed the output.
    pub fn closed(&self) -> Arc<AtomicBool> {
        self.closed.clone()
    }

    /// The writer, with everything that was committed.
    pub fn into_writer(self) -> W {
        self.writer
    }
}

impl<W: Write + Send> Sink for StandardOutput<W> {
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        self.pending.push(output)
    }

    fn commit(&mut self, cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        let (writer, closed, header) = (&mut self.writer, &self.closed, &mut self.header);
        self.pending.take(*cycles.end(), |text, _| {
            if text.is_empty() {
                return Ok(());
            }
            if let Some(header) = header.take() {
                write(writer, &header, closed)?;
            }
            write(writer, text, closed)
        })
    }

    fn finish(&mut self) -> Result<(), Cause> {
        let Some(mut text) = self.header.take() else { return Ok(()) };
        text.extend(self.pending.without_rows()?);
        write(&mut self.writer, &text, &self.closed)
    }
}

/// Writes text and flushes it.
pub(crate) fn write(writer: &mut impl Write, text: &[u8], closed: &AtomicBool) -> Result<(), Cause> {
    if text.is_empty() {
        return Ok(());
    }
    writer.write_all(text).and_then(|()| writer.flush()).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => {
            closed.store(true, Ordering::Release);
            Cause::operation(OUTPUT_CLOSED)
        }
        _ => Cause::operation(format!("the output cannot be written: {error}")).with_source(error),
    })
}
