//! A format of the program's own, as text that is read.

use std::fmt;
use std::sync::Arc;

use tidemill_core::error::Cause;

use super::{DecoderSettings, RecordDecoder};

/// Makes decoders for columns, one for each file or connection.
pub type DecoderFactory = dyn Fn(DecoderSettings) -> Result<Box<dyn RecordDecoder>, Cause> + Send + Sync;

/// How text of a program's own format is read.
#[derive(Clone)]
pub struct OwnDecoding {
    name: Arc<str>,
    factory: Arc<DecoderFactory>,
}

impl OwnDecoding {
    /// The format of this name, read by the decoders of `factory`.
    pub fn new(name: &str, factory: Arc<DecoderFactory>) -> OwnDecoding {
        OwnDecoding { name: name.into(), factory }
    }

    /// Its name, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A decoder.
    ///
    /// # Errors
    /// If the format does not support the columns.
    pub fn decoder(&self, settings: DecoderSettings) -> Result<Box<dyn RecordDecoder>, Cause> {
        (self.factory)(settings)
    }
}

/// The same name and the same factory.
impl PartialEq for OwnDecoding {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.factory, &other.factory)
    }
}

impl Eq for OwnDecoding {}

impl fmt::Debug for OwnDecoding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name)
    }
}
