//! `connector = 'generator', function = 'yahoo_events', rate = 1000`: what is called in FROM, as a source.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::connectors::source_connector::{DefinedSource, Liveness, SourceConnector, SourceRequest};
use crate::generator::Generator;
use crate::statement::Options;
use crate::statement::declared::{OptionDefault, OptionDefinition, OptionError, OptionKind};

const OPTIONS: &[OptionDefinition] = &[OptionDefinition::new(
    "function",
    OptionKind::Text,
    OptionDefault::Required,
    "the generator; its arguments are given as further options",
)];

/// The generators, whose arguments are the options.
pub(crate) struct ByFunction {
    /// They by name.
    pub generators: BTreeMap<String, Arc<Generator>>,
}

impl ByFunction {
    fn named(&self, function: &str) -> Result<&Generator, OptionError> {
        self.generators.get(function).map(Arc::as_ref).ok_or_else(|| {
            let names: Vec<&str> = self.generators.keys().map(String::as_str).collect();
            let hint = crate::closest(function, names.iter().copied());
            let message = format!("'{function}' is not a generator; the generators are {}", names.join(", "));
            OptionError { hint: hint.map(|meant| format!("did you mean {meant}?")), ..at_function(message) }
        })
    }
}

fn at_function(message: impl Into<String>) -> OptionError {
    OptionError::new("function", message)
}

impl SourceConnector for ByFunction {
    fn doc(&self) -> &str {
        "rows made by a generator"
    }

    fn options(&self) -> &[OptionDefinition] {
        OPTIONS
    }

    fn options_given(&self, given: &Options) -> Result<Cow<'_, [OptionDefinition]>, OptionError> {
        match given.text("function") {
            Ok(Some(function)) => Ok([OPTIONS, self.named(function)?.arguments()].concat().into()),
            Ok(None) => {
                let names: Vec<&str> = self.generators.keys().map(String::as_str).collect();
                let error = at_function("option `function` is missing");
                Err(error.with_hint(format!("add function = '...'; the generators are {}", names.join(", "))))
            }
            // It is not a text; the declaration says so.
            Err(_) => Ok(OPTIONS.into()),
        }
    }

    fn define(&self, request: &SourceRequest<'_>) -> Result<DefinedSource, OptionError> {
        if request.columns.is_some() {
            let error = at_function("a generator defines its own columns");
            return Err(error.with_hint("remove the columns; SELECT those that you want in a view"));
        }
        if request.is_durable {
            let error =
                OptionError::new("durable", "a generator makes the same rows again, so it needs no journal");
            return Err(error.with_hint("remove durable"));
        }
        let generator = self.named(request.options.required_text("function"))?;
        let made = generator.define(request.options).map_err(|cause| at_function(cause.to_string()))?;
        Ok(DefinedSource {
            columns: made.schema,
            is_finite: made.is_finite,
            is_repeatable: made.is_repeatable,
            starts_over: made.starts_over,
            reads_again: false,
            liveness: Liveness::Stored,
            event_time: made.event_time,
            is_table: made.is_table,
            push: None,
            open: made.open,
        })
    }
}
