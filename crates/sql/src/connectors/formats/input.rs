//! The format in which a source reads.

use datafusion::arrow::datatypes::SchemaRef;
use tidemill_connect::formats::line_protocol::{LineProtocolDecoder, LineProtocolSettings, Precision};
use tidemill_connect::formats::{
    BATCH_ROWS, CsvSettings, DecoderSettings, Format, RecordDecoder, text_decoder,
};
use tidemill_engine::Cause;

use crate::statement::declared::{OptionError, OptionValues};

/// The format of a source's rows, with its options.
#[derive(Clone, Debug, Default)]
pub struct InputFormat {
    /// The format; `None` if none is named.
    pub format: Option<Format>,
    /// How CSV is read.
    pub csv: CsvSettings,
    /// How line protocol is read.
    pub line_protocol: LineProtocolSettings,
}

impl InputFormat {
    /// A decoder for these columns.
    ///
    /// # Errors
    /// [`Cause::user`] if the format is not text, or does not support the type of a column.
    pub fn decoder(&self, columns: &SchemaRef) -> Result<Box<dyn RecordDecoder>, Cause> {
        let Some(format) = self.format.clone() else {
            return Err(Cause::user("the format is missing; write format = 'csv'".to_owned()));
        };
        let settings = self.decoder_settings(columns);
        match format {
            Format::LineProtocol => {
                Ok(Box::new(LineProtocolDecoder::new(settings, self.line_protocol.clone())?))
            }
            format => text_decoder(format, settings),
        }
    }

    /// The format, which must be text.
    ///
    /// # Errors
    /// If it is not.
    pub(crate) fn text(&self) -> Result<Format, OptionError> {
        let text = self.format.clone().filter(Format::is_text);
        text.ok_or_else(|| OptionError::new("format", "name the format of the lines: format = 'csv'"))
    }

    /// Checks that these formats have the types of the columns, so that the definition is refused, not the first query.
    ///
    /// # Errors
    /// If one of them has not.
    pub(crate) fn check(&self, formats: &[Format], columns: &SchemaRef) -> Result<(), OptionError> {
        for format in formats {
            let read = InputFormat { format: Some(format.clone()), ..self.clone() };
            read.decoder(columns).map_err(|cause| self.unfit(format, &cause))?;
        }
        Ok(())
    }

    fn unfit(&self, format: &Format, cause: &Cause) -> OptionError {
        let error = OptionError::new("format", cause.to_string());
        match (&self.format, format) {
            (None, Format::LineProtocol) => {
                error.with_hint("if clients send JSON only, write format = 'json'")
            }
            _ => error,
        }
    }

    /// The settings of a decoder for these columns.
    #[must_use]
    pub fn decoder_settings(&self, columns: &SchemaRef) -> DecoderSettings {
        DecoderSettings { schema: SchemaRef::clone(columns), csv: self.csv.clone(), batch_rows: BATCH_ROWS }
    }
}

/// How CSV is read, from the options of the format.
pub(super) fn csv(options: &OptionValues<'_>) -> CsvSettings {
    let defaults = CsvSettings::default();
    CsvSettings {
        header: options.optional_boolean("header"),
        delimiter: options.character("delimiter"),
        quote: options.character("quote").unwrap_or(defaults.quote),
        null: options.text("null").map_or(defaults.null, str::to_owned),
        skip: options.integer("skip").and_then(|lines| lines.try_into().ok()).unwrap_or(defaults.skip),
        names_delimiter: defaults.names_delimiter,
        table_fields: None,
    }
}

/// How line protocol is read, from the options of the format.
pub(super) fn line_protocol(options: &OptionValues<'_>) -> LineProtocolSettings {
    let mut settings = LineProtocolSettings {
        precision: options.text("precision").and_then(Precision::named).unwrap_or_default(),
        measurements: options.names("measurements").unwrap_or_default().to_vec(),
        time_column: options.required_text("time_column").to_owned(),
        measurement_column: options.required_text("measurement_column").to_owned(),
        ..LineProtocolSettings::default()
    };
    options.set_integer("line_bytes_max", &mut settings.line_bytes_max);
    options.set_integer("values_max", &mut settings.values_max);
    settings
}
