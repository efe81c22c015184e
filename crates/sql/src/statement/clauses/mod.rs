//! Refuses clauses that the SQL parser accepts and no one plans, each at its place.
//!
//! The parser knows the clauses of many databases, and DataFusion's planner silently ignores those that it does not
//! know: `TABLESAMPLE`, `PREWHERE`, `FOR UPDATE`. So every node of the parser's tree is taken apart here field by
//! field. No pattern has a `..`: a new field in a new version does not compile until someone has decided whether it is
//! planned or refused. The visitor finds the nodes; a node's file checks what lies between it and the next nodes that
//! the visitor finds.

mod call;
mod data_type;
mod expression;
mod literal;
mod operator;
mod query;
mod relation;
mod select;
mod set;

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    DataType, Expr, Query, Select, Spanned, TableFactor, ValueWithSpan, Visitor,
};
use datafusion::sql::sqlparser::tokenizer::Span as TokenSpan;

use super::parser::tokens;
use super::{Column, CreateFunction, Span, Statement, StatementKind, parts};
use crate::{Problem, TextError};

/// Refuses a statement that has a clause that would be ignored.
pub(super) fn check(statement: &Statement) -> Result<(), TextError> {
    let mut clauses = Clauses { statement };
    let declared: &[Column] = match &statement.kind {
        StatementKind::CreateSource(source) | StatementKind::CreateTable(source) => &source.columns,
        _ => &[],
    };
    let mut checked = declared.iter().try_for_each(|column| clauses.column(column));
    if checked.is_continue()
        && let StatementKind::CreateFunction(create) = &statement.kind
    {
        checked = clauses.function(create);
    }
    if checked.is_continue() {
        checked = parts::visit(statement, &mut clauses);
    }
    match checked {
        ControlFlow::Break(error) => Err(*error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// The result of a check: continue, or refuse.
type Checked = ControlFlow<Box<TextError>>;

const PLANNED: Checked = ControlFlow::Continue(());

struct Clauses<'a> {
    statement: &'a Statement,
}

/// The error of a parameter without a value.
pub(crate) fn not_given(statement: &Statement, name: &str, place: Span) -> TextError {
    let error = statement.error(place, format!("{name} is a placeholder without a value"));
    error.with_hint("write the value into the statement")
}

impl Clauses<'_> {
    /// Whether the statement is executed once, and not kept as its text.
    fn is_query(&self) -> bool {
        matches!(
            self.statement.kind,
            StatementKind::Query(..) | StatementKind::Explain { .. } | StatementKind::ExplainWhy(_)
        )
    }

    /// Refuses a clause that begins with these words, at their first occurrence after the beginning of `node`.
    fn clause(&self, node: &impl Spanned, words: &[&str], hint: &str) -> Checked {
        self.words(node.span(), words, format!("{} is not part of the language", words.join(" ")), hint)
    }

    /// Refuses what begins with these words, at their first occurrence after the beginning of a piece.
    fn words(&self, node: TokenSpan, words: &[&str], message: String, hint: &str) -> Checked {
        let script = self.statement.script();
        let known = script.span_of_tokens(node).unwrap_or(self.statement.span);
        let rest = Span { start: known.start, end: self.statement.span.end };
        let place = tokens::find_words(script, rest, words).unwrap_or(known);
        self.at(place, message, hint)
    }

    /// Refuses what begins with these words, at their first occurrence in the statement: for nodes whose words come
    /// before them.
    fn anywhere(&self, words: &[&str], message: String, hint: &str) -> Checked {
        self.at(self.statement.find_words(words).unwrap_or(self.statement.span), message, hint)
    }

    /// Refuses a node as a whole.
    fn node(&self, node: &impl Spanned, message: impl Into<String>, hint: &str) -> Checked {
        self.at(self.statement.span_of(node), message.into(), hint)
    }

    /// The declared type of a column.
    fn column(&self, column: &Column) -> Checked {
        let check = match column.computed {
            // What is computed is cast to the type, and a column does not cut a text.
            Some(_) => data_type::check,
            None => data_type::check_stored,
        };
        match column.data_type.as_ref().map(check) {
            Some(Err(refusal)) => self.at(column.type_span, refusal.message, &refusal.hint),
            Some(Ok(())) | None => PLANNED,
        }
    }

    /// The declared types of a function.
    fn function(&self, create: &CreateFunction) -> Checked {
        let parameters =
            create.parameters.iter().map(|parameter| (&parameter.data_type, parameter.type_span));
        for (declared, place) in parameters.chain(create.result.types()) {
            if let Err(refusal) = data_type::check(declared) {
                return self.at(place, refusal.message, &refusal.hint);
            }
        }
        PLANNED
    }

    /// The type of a cast, whose position the parser does not record.
    fn cast_to(&self, node: &impl Spanned, data_type: &DataType) -> Checked {
        let Err(refusal) = data_type::check_stored(data_type) else { return PLANNED };
        let name = data_type.to_string();
        let word = name.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next();
        self.words(node.span(), &[word.unwrap_or_default()], refusal.message, &refusal.hint)
    }

    fn at(&self, place: Span, message: String, hint: &str) -> Checked {
        ControlFlow::Break(Box::new(
            self.statement.error(place, message).of(Problem::NotSupported).with_hint(hint),
        ))
    }
}

impl Visitor for Clauses<'_> {
    type Break = Box<TextError>;

    fn pre_visit_query(&mut self, query: &Query) -> Checked {
        self.query(query)
    }

    fn pre_visit_select(&mut self, select: &Select) -> Checked {
        self.select(select)
    }

    fn pre_visit_table_factor(&mut self, relation: &TableFactor) -> Checked {
        self.relation(relation)
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> Checked {
        self.expression(expression)
    }

    fn pre_visit_value(&mut self, value: &ValueWithSpan) -> Checked {
        self.literal(value)
    }
}
