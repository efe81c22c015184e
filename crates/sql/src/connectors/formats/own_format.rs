//! Formats of the user's.

use std::sync::Arc;

use tidemill_connect::file::first_file;
use tidemill_connect::formats::encode::EncoderFactory;
use tidemill_connect::formats::{DecoderFactory, ending};

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

    /// The endings of files in this format, without a dot. A file with one of them is taken to be in this format if a
    /// statement names none, even if a built-in format has the same ending.
    fn endings(&self) -> &[&str] {
        &[]
    }

    /// Makes decoders of text. [`ParsedLines`](tidemill_connect::formats::ParsedLines) makes one of a function that takes
    /// a line apart.
    ///
    /// # Errors
    /// If options do not fit, or the format cannot be read.
    fn decoders(&self, _options: &OptionValues<'_>) -> Result<Arc<DecoderFactory>, OptionError> {
        Err(OptionError::new("format", "this format can only be written").with_hint(
            "choose a format that can \
            be read",
        ))
    }

    /// Makes encoders.
    ///
    /// # Errors
    /// If options do not fit, or the format cannot be written.
    fn encoders(&self, _options: &OptionValues<'_>) -> Result<Arc<EncoderFactory>, OptionError> {
        Err(OptionError::new("format", "this format can only be read").with_hint(
            "choose a format that can be \
            written",
        ))
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

    /// The format that the ending of a path says; of a folder, the ending of its first file.
    pub fn of_path(&self, path: &str) -> Option<(&str, &Arc<dyn RowFormat>)> {
        let by = |path: &str| {
            let ending = ending(path)?.to_ascii_lowercase();
            self.iter().find(|(_, format)| format.endings().contains(&ending.as_str()))
        };
        if self.iter().all(|(_, format)| format.endings().is_empty()) {
            return None;
        }
        // What is wrong with a folder is reported when it is read.
        by(path).or_else(|| by(&first_file(path).ok()??))
    }

    /// The format of this name, in lower case.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn RowFormat>> {
        self.iter().find(|(known, _)| *known == name).map(|(_, format)| format)
    }
}
