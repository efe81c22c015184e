//! Formats of the user's.

use std::sync::Arc;

use tidemill_connect::formats::DecoderFactory;
use tidemill_connect::formats::encode::EncoderFactory;

use crate::statement::declared::{OptionDefinition, OptionError, OptionValues};

/// A format of rows as text: `WITH (format = 'name', ...)`. Wherever text formats are accepted, it is too: in files, on
/// standard input and output, in sockets, over HTTP and in topics.
///
/// A program registers its own with [`Planner::register_format`](crate::Planner::register_format).
pub trait RowFormat: Send + Sync {
    /// What it is, in a line.
    fn doc(&self) -> &str;

    /// Its options.
    fn options(&self) -> &[OptionDefinition] {
        &[]
    }

    /// Makes decoders of text. [`ParsedLines`](tidemill_connect::formats::ParsedLines) makes one of a function that takes
    /// a line apart.
    ///
    /// # Errors
    /// If options do not fit, or the format cannot be read.
    fn decoders(&self, _options: &OptionValues<'_>) -> Result<Arc<DecoderFactory>, OptionError> {
        Err(OptionError::new("format", "this format can be written only").with_hint("read another format"))
    }

    /// Makes encoders.
    ///
    /// # Errors
    /// If options do not fit, or the format cannot be written.
    fn encoders(&self, _options: &OptionValues<'_>) -> Result<Arc<EncoderFactory>, OptionError> {
        Err(OptionError::new("format", "this format can be read only").with_hint("write another format"))
    }
}

/// The formats that a program has registered, by name.
#[derive(Clone, Default)]
pub(crate) struct OwnFormats(Vec<(String, Arc<dyn RowFormat>)>);

impl OwnFormats {
    /// Adds a format; it replaces one of the same name.
    pub fn add(&mut self, name: &str, format: Arc<dyn RowFormat>) {
        let name = name.to_ascii_lowercase();
        self.0.retain(|(known, _)| *known != name);
        self.0.push((name, format));
    }

    /// All of them, with their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Arc<dyn RowFormat>)> {
        self.0.iter().map(|(name, format)| (name.as_str(), format))
    }

    /// The format of this name, in lower case.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn RowFormat>> {
        self.iter().find(|(known, _)| *known == name).map(|(_, format)| format)
    }
}
