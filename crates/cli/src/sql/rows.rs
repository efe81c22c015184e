//! Rows on standard output.

use std::io::{self, Write};

use anyhow::Context;
use tidemill_connect::sinks::{StandardOutput, TableStyle, TextFormat};
use tidemill_engine::Sink;
use tidemill_engine::arrow::array::RecordBatch;
use tidemill_engine::arrow::schema::SchemaRef;

use super::Failed;

/// Texts of rows that are all there are cut if they are wider than so many columns of the terminal.
const WIDTH_MAX: usize = 200;

/// How rows are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum RowFormat {
    /// Aligned columns, for people
    #[default]
    Table,
    /// Comma-separated values with a header
    Csv,
    /// One JSON object per line
    Json,
}

impl RowFormat {
    /// The format of text behind it. The columns of a table get room for rows that `follow` the first ones.
    fn text(self, follow: bool) -> TextFormat {
        match self {
            RowFormat::Table if follow => TextFormat::table(),
            RowFormat::Table => {
                let style = TableStyle { rows_follow: false, width_max: WIDTH_MAX, ..TableStyle::default() };
                TextFormat::Table(style)
            }
            RowFormat::Csv => TextFormat::csv(),
            RowFormat::Json => TextFormat::Ndjson,
        }
    }

    /// A sink that writes rows as they come.
    pub fn sink(self, schema: &SchemaRef) -> anyhow::Result<Box<dyn Sink>> {
        Ok(Box::new(StandardOutput::of_process(schema, &self.text(true)).map_err(Failed)?))
    }

    /// Writes rows that are all there.
    pub fn show(self, rows: &RecordBatch) -> anyhow::Result<()> {
        let mut text = Vec::new();
        let mut encoder = self.text(false).encoder(&rows.schema()).map_err(Failed)?;
        encoder.header(&mut text);
        encoder.rows(rows, &mut text).map_err(Failed)?;
        let mut out = io::stdout().lock();
        match out.write_all(&text).and_then(|()| out.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other.context("cannot write to standard output"),
        }
    }
}
