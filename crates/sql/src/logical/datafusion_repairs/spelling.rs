//! Columns whose names have capitals: an unquoted name finds them if exactly one matches.
//!
//! DataFusion lower-cases unquoted names, so `SELECT Id` would not find the column `Id` of a file.

use std::ops::ControlFlow;

use datafusion::common::{Column, DataFusionError, SchemaError, Span};
use datafusion::sql::sqlparser::ast::{
    ExceptSelectItem, ExcludeSelectItem, Expr, Ident, JoinConstraint, JoinOperator, ObjectName,
    ObjectNamePart, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, TableFactor, TableWithJoins,
    VisitorMut, WildcardAdditionalOptions,
};

use crate::statement::in_other_letters;
use tidemill_trees::syntax::{Node, walk_mut};

/// Names and their original spelling, determined by planning.
#[derive(Debug, Default)]
pub(crate) struct Spelling {
    found: Vec<OriginalSpelling>,
}

#[derive(Debug, PartialEq)]
struct OriginalSpelling {
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
        let found = OriginalSpelling { place, name: field.name.clone(), spelled };
        if self.found.contains(&found) {
            return None;
        }
        self.found.push(found);
        Some(())
    }

    /// Corrects the names in a query or an expression.
    pub fn spell(&self, node: &mut impl Node) {
        let _ = walk_mut(node, &mut Speller(self));
    }

    fn name(&self, start: datafusion::sql::sqlparser::tokenizer::Location, name: &mut Ident) {
        let here = Some((start.line, start.column));
        let is_meant = |found: &&OriginalSpelling| {
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

/// Finds the names of columns.
struct Speller<'a>(&'a Spelling);

impl Speller<'_> {
    fn ident(&self, name: &mut Ident) {
        self.0.name(name.span.start, name);
    }

    /// A name that the planner uses as it is written.
    fn plain(&self, name: &mut Ident) {
        if name.quote_style.is_none() {
            name.value = name.value.to_lowercase();
        }
        self.ident(name);
    }

    fn object(&self, name: &mut ObjectName) {
        if let [ObjectNamePart::Identifier(name)] = name.0.as_mut_slice() {
            self.plain(name);
        }
    }

    fn joins(&self, tables: &mut TableWithJoins) {
        for join in &mut tables.joins {
            if let Some(JoinConstraint::Using(names)) = constraint(&mut join.join_operator) {
                names.iter_mut().for_each(|name| self.object(name));
            }
        }
    }

    fn star(&self, options: &mut WildcardAdditionalOptions) {
        match &mut options.opt_exclude {
            Some(ExcludeSelectItem::Single(name)) => self.object(name),
            Some(ExcludeSelectItem::Multiple(names)) => names.iter_mut().for_each(|name| self.object(name)),
            None => {}
        }
        if let Some(ExceptSelectItem { first_element, additional_elements }) = &mut options.opt_except {
            self.plain(first_element);
            additional_elements.iter_mut().for_each(|name| self.plain(name));
        }
        if let Some(replace) = &mut options.opt_replace {
            replace.items.iter_mut().for_each(|item| self.plain(&mut item.column_name));
        }
    }
}

impl VisitorMut for Speller<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        match expression {
            Expr::Identifier(name) => self.ident(name),
            Expr::CompoundIdentifier(parts) => {
                if let [first, .., last] = parts.as_mut_slice() {
                    self.0.name(first.span.start, last);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        select.from.iter_mut().for_each(|tables| self.joins(tables));
        for item in &mut select.projection {
            if let SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) = item {
                self.star(options);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::NestedJoin { table_with_joins, alias: _ } = factor {
            self.joins(table_with_joins);
        }
        ControlFlow::Continue(())
    }
}

fn constraint(join: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    match join {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint)
        | JoinOperator::Semi(constraint)
        | JoinOperator::LeftSemi(constraint)
        | JoinOperator::RightSemi(constraint)
        | JoinOperator::Anti(constraint)
        | JoinOperator::LeftAnti(constraint)
        | JoinOperator::RightAnti(constraint) => Some(constraint),
        // Joins that the language does not support, or that have no condition.
        _ => None,
    }
}

/// The query with each replacement of `* REPLACE (... AS column)` replaced by the column that it names; `None` if it has
/// none. Planning this query finds a column that does not exist. The planner (DataFusion 55.2) would silently ignore
/// the replacement.
pub(crate) fn with_replaced_columns(query: &Query) -> Option<Query> {
    struct Replaced(bool);
    impl VisitorMut for Replaced {
        type Break = ();

        fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
            for item in &mut select.projection {
                let (qualifier, options) = match item {
                    SelectItem::Wildcard(options) => (None, options),
                    SelectItem::QualifiedWildcard(qualifier, options) => (Some(qualifier), options),
                    _ => continue,
                };
                for item in options.opt_replace.iter_mut().flat_map(|replace| &mut replace.items) {
                    let column = item.column_name.clone();
                    item.expr = match &qualifier {
                        Some(SelectItemQualifiedWildcardKind::ObjectName(name)) => {
                            // A column that is not found is reported at this name.
                            let part = |part: &ObjectNamePart| {
                                Some(Ident { span: column.span, ..part.as_ident()?.clone() })
                            };
                            let parts = name.0.iter().filter_map(part).collect::<Vec<_>>().into_iter();
                            Expr::CompoundIdentifier(parts.chain([column]).collect())
                        }
                        _ => Expr::Identifier(column),
                    };
                    self.0 = true;
                }
            }
            ControlFlow::Continue(())
        }
    }
    let mut query = query.clone();
    let mut replaced = Replaced(false);
    let _ = walk_mut(&mut query, &mut replaced);
    replaced.0.then_some(query)
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
    let is_of_input = |known: &&Column| match (&field.relation, &known.relation) {
        (Some(wanted), Some(known)) => wanted.table() == known.table(),
        _ => true,
    };
    let names = valid.iter().filter(is_of_input).map(|known| known.name.as_str());
    in_other_letters(&field.name, names).map(str::to_owned)
}
