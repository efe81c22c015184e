//! The format in which a sink writes.

use datafusion::arrow::datatypes::SchemaRef;
use tidemill_connect::file::FileFormat;
use tidemill_connect::formats::encode::{CsvStyle, OwnEncoding, TextEncoder, TextFormat};
use tidemill_engine::Cause;

use crate::statement::declared::OptionError;

/// The format of a sink's rows, with its options.
#[derive(Clone, Debug, Default)]
pub struct OutputFormat {
    /// The name of the format, as it is written; `None` if none is named.
    pub(super) name: Option<String>,
    pub(super) header: Option<bool>,
    pub(super) delimiter: Option<u8>,
    /// A format of the program's own.
    pub(super) own: Option<OwnEncoding>,
}

impl OutputFormat {
    /// An encoder for these columns.
    ///
    /// # Errors
    /// [`Cause::user`] if the format is not text, or cannot represent such rows.
    pub fn encoder(&self, columns: &SchemaRef) -> Result<Box<dyn TextEncoder>, Cause> {
        self.text().encoder(columns)
    }

    /// The format as text; JSON if it is none of the others.
    pub(crate) fn text(&self) -> TextFormat {
        if let Some(own) = &self.own {
            return TextFormat::Own(own.clone());
        }
        match self.name.as_deref() {
            Some("csv") => TextFormat::Csv(self.csv(b',')),
            Some("tsv") => TextFormat::Csv(self.csv(b'\t')),
            Some("table") => TextFormat::table(),
            _ => TextFormat::Ndjson,
        }
    }

    /// The format of files; if none is named, by the ending of their path.
    pub(crate) fn file(&self, path: &str) -> Result<FileFormat, OptionError> {
        if let Some(own) = &self.own {
            return Ok(FileFormat::Own(own.clone()));
        }
        // A format is named as the ending of a file name is.
        let name = self.name.as_ref().map_or(path.to_owned(), |format| format!("rows.{format}"));
        match FileFormat::of_name(&name) {
            Some(FileFormat::Csv(style)) => Ok(FileFormat::Csv(self.csv(style.delimiter))),
            Some(format) => Ok(format),
            None => {
                let message = "name the format: format = 'csv', 'json', 'parquet' or 'arrow'";
                Err(OptionError::new("format", message))
            }
        }
    }

    fn csv(&self, delimiter: u8) -> CsvStyle {
        CsvStyle { header: self.header.unwrap_or(true), delimiter: self.delimiter.unwrap_or(delimiter) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tsv_has_tabs_by_its_name_and_by_its_ending() {
        let tabs = FileFormat::Csv(CsvStyle { header: true, delimiter: b'\t' });
        let named = OutputFormat { name: Some("tsv".to_owned()), ..OutputFormat::default() };
        assert_eq!(named.file("rows").unwrap(), tabs);
        assert_eq!(named.text(), TextFormat::Csv(CsvStyle { header: true, delimiter: b'\t' }));
        assert_eq!(OutputFormat::default().file("rows.tsv").unwrap(), tabs);
        let chosen = OutputFormat { delimiter: Some(b';'), ..OutputFormat::default() };
        let semicolons = FileFormat::Csv(CsvStyle { header: true, delimiter: b';' });
        assert_eq!(chosen.file("rows.tsv").unwrap(), semicolons);
    }
}
