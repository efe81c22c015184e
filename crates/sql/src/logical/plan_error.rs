//! Rewords the planner's errors in plain language, with their place.

use std::collections::BTreeMap;

use datafusion::common::{Column, Diagnostic, SchemaError};
use datafusion::error::DataFusionError;

use super::names::{shown, shown_text};
use super::provider::Provider;
use super::refused_clause::place_of;
use crate::closest;
use crate::defined_functions::{DIGEST_MARK, Meaning, without_digests};
use crate::refusal::Refusal;
use crate::statement::Statement;
use crate::text::wording::{Wording, between, reword, reword_known};
use crate::text::{Problem, Span, TextError};

/// How many names are listed if none is close.
const MAX_LISTED: usize = 12;

impl Provider<'_> {
    /// The error in a statement, with its place.
    pub(crate) fn text_error(&self, error: &DataFusionError, statement: &Statement) -> TextError {
        let functions = self.functions;
        let names = Names {
            failed: self.failed.clone(),
            relations: self.catalog.iter().map(|(name, _)| name).collect(),
            functions: functions
                .scalar
                .keys()
                .chain(functions.aggregate.keys())
                .chain(functions.window.keys())
                .chain(self.defined.keys())
                .map(String::as_str)
                .collect(),
            functions_of_rows: self.functions_of_rows(),
        };
        TextError::from_datafusion(error, statement, &names)
    }

    fn functions_of_rows(&self) -> Vec<&str> {
        let of_rows = self.defined.values().filter(|function| matches!(function.result, Meaning::Rows(_)));
        of_rows.map(|function| function.name.as_str()).collect()
    }
}

/// The names that a statement could have meant.
#[derive(Clone, Debug, Default)]
pub struct Names<'a> {
    /// Sources, tables and views.
    pub relations: Vec<&'a str>,
    /// Functions of all kinds.
    pub functions: Vec<&'a str>,
    /// Functions that are called in FROM.
    pub functions_of_rows: Vec<&'a str>,
    /// Sources, tables, views and functions whose definitions have failed, with the reasons.
    pub failed: BTreeMap<&'a str, &'a str>,
}

impl TextError {
    /// An error of the planner about a statement: says it plainly, finds the place, and suggests what was probably
    /// meant. For the places of columns, the planner must collect spans (`SqlParserOptions::collect_spans`).
    #[must_use]
    pub fn from_datafusion(error: &DataFusionError, statement: &Statement, names: &Names<'_>) -> TextError {
        let error = TextError::with_names_in_plans(error, statement, names);
        // Who has written such a name sees what he has written.
        if statement.text.contains(DIGEST_MARK) {
            return error;
        }
        let (message, hint) = (without_digests(&error.message), error.hint.as_deref().map(without_digests));
        TextError { message, hint, ..error }
    }

    /// As the planner says it: functions whose code is loaded have the names that only plans have.
    fn with_names_in_plans(error: &DataFusionError, statement: &Statement, names: &Names<'_>) -> TextError {
        let (root, diagnostic) = root(error);
        let context = ErrorContext { statement, names, diagnostic };
        match root {
            DataFusionError::SchemaError(error, _) => context.schema(error),
            DataFusionError::Plan(text) => context.plan(text),
            DataFusionError::Internal(text) => {
                if let Some(wording) = reword_known(text) {
                    return context.worded(wording);
                }
                let said = reword(text).message;
                context.error(None, format!("the planner failed; this is a bug: {said}")).of(Problem::Bug)
            }
            DataFusionError::NotImplemented(text) => {
                let wording = reword(text);
                let plain = ["not supported", "cannot"].iter().any(|word| wording.message.contains(word))
                    || wording.message.starts_with("unknown");
                let prefix = if plain { "" } else { "not supported: " };
                let message = format!("{prefix}{}", wording.message);
                context.worded(Wording { message, ..wording }).of(Problem::NotSupported)
            }
            DataFusionError::External(inner) if inner.is::<Refusal>() => {
                let refusal = inner.downcast_ref::<Refusal>().expect("it is one");
                let place = context.diagnosed().or_else(|| place_of(&refusal.reason, statement));
                let error = context.error(place, refusal.reason.clone()).of(refusal.problem);
                error.with_hint(refusal.way_out.clone())
            }
            DataFusionError::ResourcesExhausted(_) => context.plan(&root.message()).of(Problem::Resource),
            other => context.plan(&other.message()),
        }
    }
}

/// The innermost error, and the innermost diagnostic on the path to it.
fn root(error: &DataFusionError) -> (&DataFusionError, Option<&Diagnostic>) {
    let mut error = error;
    let mut found = None;
    loop {
        error = match error {
            DataFusionError::Context(_, inner) => inner,
            DataFusionError::Diagnostic(diagnostic, inner) => {
                found = Some(&**diagnostic);
                inner
            }
            DataFusionError::Shared(inner) => inner,
            DataFusionError::Collection(all) => match all.first() {
                Some(first) => first,
                None => return (error, found),
            },
            DataFusionError::External(inner) => match inner.downcast_ref::<DataFusionError>() {
                Some(inner) => inner,
                None => return (error, found),
            },
            _ => return (error, found),
        };
    }
}

/// The context for rewording an error.
struct ErrorContext<'a> {
    statement: &'a Statement,
    names: &'a Names<'a>,
    diagnostic: Option<&'a Diagnostic>,
}

impl ErrorContext<'_> {
    /// An error at `span`, or else at the planner's place, or else at the whole statement.
    fn error(&self, span: Option<Span>, message: String) -> TextError {
        let span = span.or_else(|| self.diagnosed()).unwrap_or(self.statement.span);
        self.statement.error(span, shown_text(&message))
    }

    fn diagnosed(&self) -> Option<Span> {
        self.statement.script().span_of_plan(self.diagnostic?.span?)
    }

    fn place_of(&self, column: &Column) -> Option<Span> {
        let context = column.spans.first().and_then(|span| self.statement.script().span_of_plan(span));
        context.or_else(|| self.diagnosed()).or_else(|| self.statement.find_name(&column.name))
    }

    fn schema(&self, error: &SchemaError) -> TextError {
        match error {
            SchemaError::FieldNotFound { field, valid_fields } => self.unknown_column(field, valid_fields),
            SchemaError::AmbiguousReference { field } => {
                let message = format!("column `{}` is in more than one input", field.name);
                let error = self.error(self.place_of(field), message).of(Problem::AmbiguousColumn);
                error.with_hint(self.choices().unwrap_or_else(|| format!("write input.{}", field.name)))
            }
            SchemaError::DuplicateQualifiedField { name, .. }
            | SchemaError::DuplicateUnqualifiedField { name } => {
                let place = self.diagnosed().or_else(|| self.statement.find_name(name));
                let error = self.error(place, format!("two columns have the name `{name}`"));
                error.with_hint("rename one of them with AS")
            }
        }
    }

    /// The columns that an ambiguous name may denote, as the planner lists them.
    fn choices(&self) -> Option<String> {
        let notes = self.diagnostic?.notes.iter();
        let columns: Vec<&str> =
            notes.filter_map(|note| note.message.strip_prefix("possible column ")).collect();
        (!columns.is_empty()).then(|| format!("write {}", columns.join(" or ")))
    }

    fn unknown_column(&self, field: &Column, valid: &[Column]) -> TextError {
        let name = field.name.as_str();
        if valid.iter().any(|known| known.name != name && shown(&known.name) == name) {
            let message = format!("column `{}` exists more than once", field.flat_name());
            let error = self.error(self.place_of(field), message);
            return error.with_hint("rename one of them with AS where they are selected");
        }
        let error = self.error(self.place_of(field), format!("unknown column `{}`", field.flat_name()));
        let error = error.of(Problem::UnknownColumn);
        // The name as written may exist, in an input with another name.
        let elsewhere = valid.iter().find(|known| field.relation.is_some() && known.name == name);
        if let Some(known) = elsewhere {
            return error.with_hint(format!("did you mean {}?", known.flat_name()));
        }
        let mut known: Vec<&str> = valid.iter().map(|column| column.name.as_str()).collect();
        known.sort_unstable();
        known.dedup();
        let near = closest(name, known.iter().copied());
        if let (Some(input), Some(meant)) = (&field.relation, near) {
            return error.with_hint(format!("did you mean {}.{meant}?", input.table()));
        }
        error.with_optional_hint(suggestion(name, &known, "the columns are"))
    }

    fn plan(&self, text: &str) -> TextError {
        if let Some(name) = between(text, "table '", "' not found") {
            return self.unknown_relation(name);
        }
        if let Some(name) = between(text, "Invalid table function '", "'")
            && let Some(error) = self.failed(name, self.statement.find_name(name))
        {
            return error;
        }
        let function = between(text, "Invalid function '", "'")
            .or_else(|| between(text, "able function '", "' not found"));
        if let Some(name) = function {
            return self.unknown_function(name);
        }
        self.worded(reword(text))
    }

    fn worded(&self, wording: Wording) -> TextError {
        let place = self.diagnosed().or_else(|| self.statement.find_name(wording.at.as_deref()?));
        self.error(place, wording.message).with_optional_hint(wording.hint)
    }

    /// The error if a name stands for nothing because its definition has failed.
    fn failed(&self, name: &str, place: Option<Span>) -> Option<TextError> {
        let reason = self.names.failed.get(name)?;
        let message = format!("the definition of `{name}` has failed: {reason}");
        let error = self.error(self.diagnosed().or(place), message);
        Some(error.with_hint("drop it, or replace it with CREATE OR REPLACE"))
    }

    fn unknown_relation(&self, name: &str) -> TextError {
        // The planner adds the catalogue and its part to names; names may have periods too.
        let short = name.splitn(3, '.').nth(2).unwrap_or(name);
        let written = name.match_indices('.').map(|(at, _)| &name[at + 1..]).chain([name]);
        let found = written.filter_map(|name| Some((name, self.statement.find_name(name)?))).next();
        let (name, place) = found.map_or((short, None), |(name, place)| (name, Some(place)));
        if let Some(error) = self.failed(name, place) {
            return error;
        }
        let error = self.error(self.diagnosed().or(place), format!("unknown source or view `{name}`"));
        let error = error.of(Problem::UnknownRelation);
        if self.names.functions_of_rows.contains(&name) {
            return error.with_hint(format!("it is a function: write {name}(...)"));
        }
        error.with_optional_hint(suggestion(name, &self.names.relations, "there are"))
    }

    fn unknown_function(&self, name: &str) -> TextError {
        let place = self.diagnosed().or_else(|| self.statement.find_name(name));
        if let Some(error) = self.failed(name, place) {
            return error;
        }
        if self.names.functions.contains(&name) {
            let error = self.error(place, format!("`{name}` cannot be called like this"));
            return error.of(Problem::UnknownFunction).with_hint(format!(
                "it may need a window: {name}(...) OVER (PARTITION BY ... ORDER BY ...)"
            ));
        }
        let error = self.error(place, format!("unknown function `{name}`")).of(Problem::UnknownFunction);
        let near = closest(name, self.names.functions.iter().copied());
        let hint = near.map(|meant| format!("did you mean {meant}?"));
        error.with_optional_hint(hint.or_else(|| Some("SHOW FUNCTIONS lists all of them".to_owned())))
    }
}

fn suggestion(name: &str, known: &[&str], listed: &str) -> Option<String> {
    if let Some(meant) = closest(name, known.iter().copied()) {
        return Some(format!("did you mean {meant}?"));
    }
    let shown = known.iter().take(MAX_LISTED).copied().collect::<Vec<_>>().join(", ");
    let more = if known.len() > MAX_LISTED { ", ..." } else { "" };
    (!known.is_empty()).then(|| format!("{listed} {shown}{more}"))
}
