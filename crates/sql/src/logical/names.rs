//! Column names. A column without a name is named after its expression. Columns may have equal names, which
//! DataFusion's plans do not allow, so these get a number that is not shown. Where a query reads a column by the name that PostgreSQL
//! derives (`SELECT count FROM (SELECT count(*) FROM t) s`, `ORDER BY lag`), the column has that name.
//!
//! DataFusion (55.2) names an expression by its own text, with types and without casts: `Int64(1)` for 1, and the
//! same name for `CAST(at AS DATE)` and `CAST(at AS TIME)`. So two group keys made from one column collide, and an
//! ORDER BY of a column's number does not find it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::{DataFusionError, Result, ScalarValue, SchemaError};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::{
    self, Ident, PipeOperator, Query, Select, SelectItem, Visitor, VisitorMut,
};

use crate::statement::derived_name;
use tidemill_trees::syntax::{walk, walk_expressions_mut, walk_mut};

/// Precedes the number of a name that occurs more than once.
const MARK: char = '\u{1f}';

/// The function around a cast that must not be taken for another cast of the same value.
pub(super) const AS_WRITTEN: &str = "as written";

/// A name without the number that distinguishes it from equal ones.
pub(crate) fn shown(name: &str) -> &str {
    name.split(MARK).next().unwrap_or_default()
}

/// A name that is shown like another one, for a column with this number.
pub(crate) fn same_name(name: &str, number: usize) -> String {
    format!("{}{MARK}{number}", shown(name))
}

/// A name as a column header. DataFusion invents names if the query has no place for one.
pub(crate) fn header(name: &str) -> String {
    crate::text::wording::plain_values(shown(name))
}

/// A text that contains names, without the numbers that distinguish equal ones.
pub(crate) fn shown_text(text: &str) -> String {
    let mut pieces = text.split(MARK);
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |text, piece| text + piece.trim_start_matches(|char: char| char.is_ascii_digit()))
}

/// Rows with the names as shown.
pub(crate) fn shown_rows(rows: RecordBatch) -> Result<RecordBatch> {
    let schema = rows.schema();
    let fields = schema.fields().iter();
    let fields: Vec<Field> =
        fields.map(|field| field.as_ref().clone().with_name(header(field.name()))).collect();
    // Not `with_schema`, which wants the same names.
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    let schema = Arc::new(Schema::new(fields));
    Ok(RecordBatch::try_new_with_options(schema, rows.columns().to_vec(), &options)?)
}

/// The changes a query needs so that its names differ, determined by planning it.
#[derive(Debug, Default)]
pub(super) struct Naming {
    /// Casts are distinguished.
    casts: bool,
    /// Columns next to a star that have the name of one of its columns.
    beside_star: BTreeSet<String>,
    /// Names that PostgreSQL derives for columns without names, and that the query reads.
    derived: BTreeSet<String>,
}

impl Naming {
    /// What else the query needs after this error; `None` if names are not the problem.
    pub fn after(&mut self, error: &DataFusionError, query: &Query) -> Option<()> {
        let name = match error.find_root() {
            DataFusionError::SchemaError(error, _) => match error.as_ref() {
                SchemaError::AmbiguousReference { field } => field.name.clone(),
                SchemaError::DuplicateQualifiedField { name, .. }
                | SchemaError::DuplicateUnqualifiedField { name } => name.clone(),
                SchemaError::FieldNotFound { field, .. } => {
                    let is_new = derives(query, &field.name) && self.derived.insert(field.name.clone());
                    return is_new.then_some(());
                }
            },
            DataFusionError::Plan(text) if text.contains("unique expression names") => {
                let second = text.split(" and \"").nth(1)?.split("\" at position").next()?;
                second.rsplit(" AS ").next()?.rsplit('.').next()?.to_owned()
            }
            _ => return None,
        };
        let is_new = self.beside_star.insert(name) | !std::mem::replace(&mut self.casts, true);
        is_new.then_some(())
    }

    /// The query with a name for each column.
    pub fn name(&self, query: &Query) -> Query {
        let mut named = query.clone();
        let _ = walk_mut(&mut named, &mut Names { naming: self });
        if self.casts {
            let _ = walk_expressions_mut(&mut named, |expression| {
                tell_apart(expression);
                ControlFlow::<()>::Continue(())
            });
        }
        named
    }
}

/// Whether a column without a name has this one in PostgreSQL.
fn derives(query: &Query, name: &str) -> bool {
    let mut found = Derived { name, is_found: false };
    let _ = walk(query, &mut found);
    found.is_found
}

struct Derived<'a> {
    name: &'a str,
    is_found: bool,
}

impl Visitor for Derived<'_> {
    type Break = ();

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        self.is_found |= select.projection.iter().any(|item| derived(item).as_deref() == Some(self.name));
        ControlFlow::Continue(())
    }
}

/// The name that PostgreSQL derives for a column without a name.
fn derived(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::UnnamedExpr(expression) => derived_name(expression),
        _ => None,
    }
}

struct Names<'a> {
    naming: &'a Naming,
}

impl Names<'_> {
    /// Gives columns the derived names that the query reads, where one column alone has the name.
    fn derive(&self, select: &mut Select) {
        for name in &self.naming.derived {
            let places = 0..select.projection.len();
            let item = |place: &usize| &select.projection[*place];
            let is_derived = |place: &usize| derived(item(place)).as_ref() == Some(name);
            let places: Vec<usize> = places
                .filter(|place| is_derived(place) || name_of(item(place)).as_ref() == Some(name))
                .collect();
            if let [place] = places.as_slice() {
                give(&mut select.projection[*place], name.clone());
            }
        }
    }
}

impl VisitorMut for Names<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        for pipe in &mut query.pipe_operators {
            match pipe {
                PipeOperator::Select { exprs } | PipeOperator::Extend { exprs } => {
                    exprs.iter_mut().for_each(name_as_written);
                }
                PipeOperator::Aggregate { full_table_exprs, .. } => {
                    for item in full_table_exprs.iter_mut().filter(|item| item.expr.alias.is_none()) {
                        item.expr.alias = Some(Ident::with_quote('"', text_of(&item.expr.expr)));
                    }
                }
                _ => {}
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.derive(select);
        let is_star =
            |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
        let has_star = select.projection.iter().any(is_star);
        let relations = relation_names(&select.from);
        let mut seen: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (index, item) in select.projection.iter().enumerate() {
            if let Some(name) = name_of(item) {
                seen.entry(name).or_default().push(index);
            }
        }
        for (name, places) in seen {
            let collides = has_star && self.naming.beside_star.contains(&name);
            let is_same = |place: &usize| {
                expression_of(&select.projection[*place]) == expression_of(&select.projection[places[0]])
            };
            // Of columns that are the same, the first can be named from outside.
            let first = usize::from(!collides && places.iter().all(is_same));
            let hides = places.len() > 1 || collides;
            for (number, place) in places.into_iter().enumerate() {
                let alias = if hides && number >= first {
                    format!("{name}{MARK}{}", number + 1)
                } else {
                    name.clone()
                };
                let item = &mut select.projection[place];
                if hides || is_unnamed(item) || is_field(item, relations.as_ref()) {
                    give(item, alias);
                }
            }
        }
        ControlFlow::Continue(())
    }
}

fn name_as_written(item: &mut SelectItem) {
    if let Some(name) = name_of(item).filter(|_| is_unnamed(item)) {
        give(item, name);
    }
}

/// The name of a selected column; `None` for anything but a single column.
fn name_of(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(normal(alias)),
        SelectItem::UnnamedExpr(expression) => match plain(expression) {
            ast::Expr::Identifier(name) => Some(normal(name)),
            ast::Expr::CompoundIdentifier(parts) => parts.last().map(normal),
            // It may make several columns.
            ast::Expr::Function(call) if call.name.to_string().eq_ignore_ascii_case("unnest") => None,
            expression => Some(text_of(expression)),
        },
        SelectItem::ExprWithAliases { .. } | SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => {
            None
        }
    }
}

fn expression_of(item: &SelectItem) -> Option<&ast::Expr> {
    match item {
        SelectItem::ExprWithAlias { expr, .. } | SelectItem::UnnamedExpr(expr) => Some(plain(expr)),
        _ => None,
    }
}

/// Whether DataFusion would invent a name.
fn is_unnamed(item: &SelectItem) -> bool {
    let SelectItem::UnnamedExpr(expression) = item else { return false };
    !matches!(plain(expression), ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_))
}

/// Whether it is a field of a column (`place.x`, `reports.place.x`), which DataFusion would name `reports.place[x]`. Of
/// `relations`, none has the name before the first point; `None`: they are not known.
fn is_field(item: &SelectItem, relations: Option<&BTreeSet<String>>) -> bool {
    let (SelectItem::UnnamedExpr(expression), Some(relations)) = (item, relations) else { return false };
    let ast::Expr::CompoundIdentifier(parts) = plain(expression) else { return false };
    parts.len() > 2 || parts.first().is_some_and(|first| !relations.contains(&normal(first)))
}

/// The names by which columns can be qualified; `None` if that is not only a matter of the text.
fn relation_names(from: &[ast::TableWithJoins]) -> Option<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for table in from {
        let joined = table.joins.iter().map(|join| &join.relation);
        for relation in std::iter::once(&table.relation).chain(joined) {
            match relation {
                ast::TableFactor::Table { alias: Some(alias), .. }
                | ast::TableFactor::Derived { alias: Some(alias), .. } => {
                    names.insert(normal(&alias.name));
                }
                ast::TableFactor::Table { name, alias: None, args: None, .. } => {
                    let identifiers = name.0.iter().filter_map(ast::ObjectNamePart::as_ident);
                    names.extend(identifiers.map(normal));
                }
                ast::TableFactor::NestedJoin { table_with_joins, alias: None } => {
                    names.extend(relation_names(std::slice::from_ref(table_with_joins))?);
                }
                _ => return None,
            }
        }
    }
    Some(names)
}

fn give(item: &mut SelectItem, name: String) {
    let placeholder = SelectItem::UnnamedExpr(ast::Expr::Identifier(Ident::new("")));
    *item = match std::mem::replace(item, placeholder) {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) }
        }
        other => other,
    };
}

/// Without the surrounding parentheses.
fn plain(expression: &ast::Expr) -> &ast::Expr {
    match expression {
        ast::Expr::Nested(inner) => plain(inner),
        other => other,
    }
}

fn normal(name: &Ident) -> String {
    match name.quote_style {
        None => name.value.to_ascii_lowercase(),
        Some(_) => name.value.clone(),
    }
}

/// An expression as written, with its names in the case in which they are found.
fn text_of(expression: &ast::Expr) -> String {
    let mut written = expression.clone();
    let _ = walk_expressions_mut(&mut written, |part| {
        match part {
            ast::Expr::Identifier(name) => lower(name),
            ast::Expr::CompoundIdentifier(parts) => parts.iter_mut().for_each(lower),
            ast::Expr::Function(call) => {
                for part in &mut call.name.0 {
                    if let ast::ObjectNamePart::Identifier(name) = part {
                        lower(name);
                    }
                }
            }
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    written.to_string()
}

fn lower(name: &mut Ident) {
    name.value = normal(name);
}

/// Wraps a cast in the function that distinguishes it from other casts of the same value.
fn tell_apart(expression: &mut ast::Expr) {
    let is_cast = matches!(
        expression,
        ast::Expr::Cast { .. } | ast::Expr::AtTimeZone { .. } | ast::Expr::TypedString(_)
    );
    if !is_cast {
        return;
    }
    let text = text_of(expression);
    let cast = std::mem::replace(expression, ast::Expr::Identifier(Ident::new("")));
    let argument = |value| ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(value));
    let text = ast::Expr::value(ast::Value::SingleQuotedString(text));
    *expression = ast::Expr::Function(ast::Function {
        name: ast::ObjectName::from(vec![Ident::with_quote('"', AS_WRITTEN)]),
        uses_odbc_syntax: false,
        parameters: ast::FunctionArguments::None,
        args: ast::FunctionArguments::List(ast::FunctionArgumentList {
            duplicate_treatment: None,
            args: vec![argument(cast), argument(text)],
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    });
}

/// The function that returns its first argument and is named by its second.
pub(super) fn as_written() -> ScalarUDF {
    ScalarUDF::new_from_impl(AsWritten { signature: Signature::any(2, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct AsWritten {
    signature: Signature,
}

impl AsWritten {
    fn text(args: &[Expr]) -> String {
        match args {
            [_, Expr::Literal(ScalarValue::Utf8(Some(text)), _)] => text.clone(),
            _ => AS_WRITTEN.to_owned(),
        }
    }
}

impl ScalarUDFImpl for AsWritten {
    fn name(&self) -> &str {
        AS_WRITTEN
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        Ok(AsWritten::text(args))
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(AsWritten::text(args))
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments.first().cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::clone(&args.arg_fields[0]))
    }

    fn simplify(&self, mut args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        Ok(ExprSimplifyResult::Simplified(args.swap_remove(0)))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args.swap_remove(0))
    }
}
