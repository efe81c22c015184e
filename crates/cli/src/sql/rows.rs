//! Rows on standard output.

use tidemill_connect::formats::encode::{TableLayout, TableStyle, TextEncoder, TextFormat};
use tidemill_connect::standard_streams::StandardOutput;
use tidemill_engine::Sink;
use tidemill_engine::arrow::array::RecordBatch;
use tidemill_engine::arrow::schema::SchemaRef;

use crate::terminal;

/// How rows are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum RowFormat {
    /// Aligned columns, or one line per value if the terminal is too narrow
    #[default]
    Table,
    /// One line per value
    Expanded,
    /// Comma-separated values with a header
    Csv,
    /// One JSON object per line
    Json,
}

impl RowFormat {
    /// The underlying text format. Table columns get room for rows that `follow` the first ones.
    fn text(self, follow: bool) -> TextFormat {
        let table =
            |layout| TextFormat::Table(TableStyle { rows_follow: follow, layout, ..TableStyle::default() });
        match self {
            RowFormat::Table => table(match terminal::size() {
                Some((_, columns)) => TableLayout::Fitting(columns),
                None => TableLayout::Lines,
            }),
            RowFormat::Expanded => table(TableLayout::Values),
            RowFormat::Csv => TextFormat::csv(),
            RowFormat::Json => TextFormat::Ndjson,
        }
    }

    /// Whether it is meant for people.
    pub fn is_for_people(self) -> bool {
        matches!(self, RowFormat::Table | RowFormat::Expanded)
    }

    /// A sink that writes rows as they come.
    pub fn sink(self, schema: &SchemaRef) -> anyhow::Result<Box<dyn Sink>> {
        Ok(Box::new(StandardOutput::of_process(schema, &self.text(true))?))
    }

    /// Turns rows that come gradually into text.
    pub fn encoder(self, schema: &SchemaRef) -> anyhow::Result<Box<dyn TextEncoder>> {
        Ok(self.text(true).encoder(schema)?)
    }

    /// The text of complete rows.
    pub fn all(self, rows: &RecordBatch) -> anyhow::Result<Vec<u8>> {
        let mut text = Vec::new();
        let mut encoder = self.text(false).encoder(&rows.schema())?;
        encoder.header(&mut text);
        encoder.rows(rows, &mut text)?;
        Ok(text)
    }

    /// Writes complete rows.
    pub fn show(self, rows: &RecordBatch) -> anyhow::Result<()> {
        terminal::write(&self.all(rows)?).map(|_| ())
    }
}
