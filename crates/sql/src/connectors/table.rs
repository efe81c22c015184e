//! The table of connectors.

use std::fmt;
use std::sync::Arc;

use super::formats::{OwnFormats, RowFormat};
use super::refused::RefusedSink;
use super::sink_connector::SinkConnector;
use super::source_connector::SourceConnector;
use crate::statement::declared::OptionDefinition;
use crate::statement::{Options, did_you_mean};
use crate::text::TextError;

/// All connectors by name, in the order in which they were added.
#[derive(Clone, Default)]
pub(crate) struct ConnectorTable {
    sources: NamedConnectors<dyn SourceConnector>,
    sinks: NamedConnectors<dyn SinkConnector>,
    /// The formats that a program has registered.
    pub formats: OwnFormats,
}

impl ConnectorTable {
    /// Adds a connector for sources; it replaces one of the same name.
    pub fn add_source(&mut self, name: &str, connector: Arc<dyn SourceConnector>) {
        self.sources.add(name, connector);
    }

    /// Adds a connector for sinks; it replaces one of the same name.
    pub fn add_sink(&mut self, name: &str, connector: Arc<dyn SinkConnector>) {
        self.sinks.add(name, connector);
    }

    /// Refuses sinks of this connector from now on.
    pub fn refuse_sink(&mut self, name: &str, reason: &str) {
        if let Some((_, known)) = self.sinks.0.iter_mut().find(|(known, _)| known == name) {
            *known = Arc::new(RefusedSink { connector: Arc::clone(known), reason: reason.to_owned() });
        }
    }

    /// Adds a format; it replaces one of the same name.
    pub fn add_format(&mut self, name: &str, format: Arc<dyn RowFormat>) {
        self.formats.add(name, format);
    }

    /// The connector that the options of a source name.
    pub fn source(&self, options: &Options) -> Result<(&str, &Arc<dyn SourceConnector>), TextError> {
        self.sources.of(options)
    }

    /// The connector that the options of a sink name.
    pub fn sink(&self, options: &Options) -> Result<(&str, &Arc<dyn SinkConnector>), TextError> {
        self.sinks.of(options)
    }

    /// The connectors for sources, by name.
    pub fn sources(&self) -> impl Iterator<Item = (&str, &Arc<dyn SourceConnector>)> {
        self.sources.0.iter().map(|(name, connector)| (name.as_str(), connector))
    }

    /// The connectors for sinks, by name.
    pub fn sinks(&self) -> impl Iterator<Item = (&str, &Arc<dyn SinkConnector>)> {
        self.sinks.0.iter().map(|(name, connector)| (name.as_str(), connector))
    }

    /// The other connectors for sources that have this option.
    pub fn sources_with(&self, option: &str) -> Vec<&str> {
        let has = |(_, connector): &(&str, &Arc<dyn SourceConnector>)| has(connector.options(), option);
        self.sources().filter(has).map(|(name, _)| name).collect()
    }

    /// The other connectors for sinks that have this option.
    pub fn sinks_with(&self, option: &str) -> Vec<&str> {
        let has = |(_, connector): &(&str, &Arc<dyn SinkConnector>)| has(connector.options(), option);
        self.sinks().filter(has).map(|(name, _)| name).collect()
    }
}

fn has(options: &[OptionDefinition], name: &str) -> bool {
    options.iter().any(|option| option.name == name)
}

impl fmt::Debug for ConnectorTable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ConnectorTable")
            .field("sources", &self.sources.names())
            .field("sinks", &self.sinks.names())
            .finish()
    }
}

/// Connectors of one direction.
struct NamedConnectors<T: ?Sized>(Vec<(String, Arc<T>)>);

impl<T: ?Sized> NamedConnectors<T> {
    fn add(&mut self, name: &str, connector: Arc<T>) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = connector,
            None => self.0.push((name.to_owned(), connector)),
        }
    }

    fn names(&self) -> Vec<&str> {
        self.0.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// The connector that the options name; with a path and without a name it is `file`.
    fn of(&self, options: &Options) -> Result<(&str, &Arc<T>), TextError> {
        let guessed = options.get("path").map(|_| "file");
        let Some(wanted) = options.text("connector")?.or(guessed) else {
            let message = format!("name the connector: {}", self.names().join(", "));
            return Err(options.error("connector", message));
        };
        match self.0.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)) {
            Some((name, connector)) => Ok((name, connector)),
            None => {
                let error = options.error("connector", format!("unknown connector '{wanted}'"));
                Err(error.with_hint(did_you_mean(wanted, &self.names(), "connector is one of")))
            }
        }
    }
}

impl<T: ?Sized> Clone for NamedConnectors<T> {
    fn clone(&self) -> Self {
        NamedConnectors(self.0.clone())
    }
}

impl<T: ?Sized> Default for NamedConnectors<T> {
    fn default() -> Self {
        NamedConnectors(Vec::new())
    }
}
