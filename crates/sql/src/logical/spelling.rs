//! Columns whose names have capitals: an unquoted name finds them if exactly one matches.
//!
//! DataFusion lower-cases unquoted names, so `SELECT Id` would not find the column `Id` of a file.

use std::ops::ControlFlow;

use datafusion::common::{Column, DataFusionError, SchemaError, Span};
use datafusion::sql::sqlparser::ast::{Expr, Ident, VisitMut, visit_expressions_mut};

/// Names and their original spelling, determined by planning.
#[derive(Debug, Default)]
pub(super) struct Spelling {
    found: Vec<Found>,
}

#[derive(Debug, PartialEq)]
struct Found {
    /// Line and column of the expression; `None`: everywhere.
    place: Option<(u64, u64)>,
    name: String,
    spelled: String,
}

impl Spelling {
    /// The spelling of a column that was not found; `None` if spelling is not the problem.
    pub fn after(&mut self, error: &DataFusionError) -> Option<()> {
        let DataFusionError::SchemaError(schema, _) = error.find_root() else { return None };
        let SchemaError::FieldNotFound { field, valid_fields } = schema.as_ref() else { return None };
        let span = field.spans.first().or_else(|| place_of(error).copied());
        let place = span.map(|span| (span.start.line, span.start.column));
        let spelled = spelled(field, valid_fields)?;
        let found = Found { place, name: field.name.clone(), spelled };
        if self.found.contains(&found) {
            return None;
        }
        self.found.push(found);
        Some(())
    }

    /// Corrects the names in a query or an expression.
    pub fn spell(&self, node: &mut impl VisitMut) {
        if self.found.is_empty() {
            return;
        }
        let _ = visit_expressions_mut(node, |expression| {
            match expression {
                Expr::Identifier(name) => self.name(name.span.start, name),
                Expr::CompoundIdentifier(parts) => {
                    if let [first, .., last] = parts.as_mut_slice() {
                        self.name(first.span.start, last);
                    }
                }
                _ => {}
            }
            ControlFlow::<()>::Continue(())
        });
    }

    fn name(&self, start: datafusion::sql::sqlparser::tokenizer::Location, name: &mut Ident) {
        let here = Some((start.line, start.column));
        let is_meant = |found: &&Found| {
            name.value.to_ascii_lowercase() == found.name && (found.place.is_none() || found.place == here)
        };
        if name.quote_style.is_none()
            && let Some(found) = self.found.iter().find(is_meant)
        {
            name.value = found.spelled.clone();
            name.quote_style = Some('"');
        }
    }
}

fn place_of(error: &DataFusionError) -> Option<&Span> {
    match error {
        DataFusionError::Diagnostic(diagnostic, _) => diagnostic.span.as_ref(),
        DataFusionError::Context(_, inner) => place_of(inner),
        DataFusionError::Collection(errors) => errors.first().and_then(place_of),
        _ => None,
    }
}

/// The only column whose name differs only in case.
fn spelled(field: &Column, valid: &[Column]) -> Option<String> {
    let is_same = |known: &&Column| {
        let same_input = match (&field.relation, &known.relation) {
            (Some(wanted), Some(known)) => wanted.table() == known.table(),
            _ => true,
        };
        same_input && known.name != field.name && known.name.to_lowercase() == field.name.to_lowercase()
    };
    let mut names = valid.iter().filter(is_same).map(|known| known.name.as_str());
    let first = names.next()?;
    names.all(|name| name == first).then(|| first.to_owned())
}
