//! A format of the program's own, as text that is written.

use std::fmt;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use tidemill_core::Cause;

use super::TextEncoder;

/// Makes encoders for columns.
pub type EncoderFactory = dyn Fn(&SchemaRef) -> Result<Box<dyn TextEncoder>, Cause> + Send + Sync;

/// How text of a program's own format is written.
#[derive(Clone)]
pub struct OwnEncoding {
    name: Arc<str>,
    settings: Arc<str>,
    factory: Arc<EncoderFactory>,
}

impl OwnEncoding {
    /// The format of this name. `settings` says how it is set: files that a run continues must have been written with
    /// the same.
    pub fn new(name: &str, settings: &str, factory: Arc<EncoderFactory>) -> OwnEncoding {
        OwnEncoding { name: name.into(), settings: settings.into(), factory }
    }

    /// Its name, which is also the ending of files.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// An encoder.
    ///
    /// # Errors
    /// If the format cannot represent such rows.
    pub fn encoder(&self, schema: &SchemaRef) -> Result<Box<dyn TextEncoder>, Cause> {
        (self.factory)(schema)
    }
}

/// The same name, the same settings and the same factory.
impl PartialEq for OwnEncoding {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
            && self.settings == other.settings
            && Arc::ptr_eq(&self.factory, &other.factory)
    }
}

impl Eq for OwnEncoding {}

/// Name and settings only: equal in every run.
impl fmt::Debug for OwnEncoding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} {:?}", self.name, self.settings)
    }
}
