//! What a query needs of the journal of one source of a database.

use std::sync::Arc;

use parking_lot::Mutex;
use tidemill_core::arrow::schema::SchemaRef;
use tidemill_journal::{StreamProgress, StreamReader};

use super::lost_rows::SourceInCuts;
use crate::feed_settings::FeedSettings;

/// What a query needs of the journal of one source.
#[derive(Clone)]
pub(crate) struct SourceJournal {
    /// What it is called there.
    pub name: String,
    pub in_cuts: SourceInCuts,
    pub progress: Arc<StreamProgress>,
    /// Whether a commit waits for its sync.
    pub waits: bool,
    pub settings: FeedSettings,
    /// The columns with which it comes in.
    pub schema: SchemaRef,
    reader: Arc<Mutex<StreamReader>>,
}

impl SourceJournal {
    pub fn new(
        (name, in_cuts, waits): (&str, SourceInCuts, bool),
        progress: Arc<StreamProgress>,
        (settings, schema): (&FeedSettings, &SchemaRef),
        reader: &StreamReader,
    ) -> SourceJournal {
        let (settings, schema) = (settings.clone(), Arc::clone(schema));
        let (name, reader) = (name.to_owned(), Arc::new(Mutex::new(reader.another())));
        SourceJournal { name, in_cuts, progress, waits, settings, schema, reader }
    }

    /// Another reader of it.
    pub fn reader(&self) -> StreamReader {
        self.reader.lock().another()
    }
}
