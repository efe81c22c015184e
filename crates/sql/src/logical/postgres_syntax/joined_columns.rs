//! The columns of joins with USING and NATURAL, as in PostgreSQL: a column that is joined comes once, in front of the others, and is that of
//! the side that has it. DataFusion (55.2) leaves it where the first table has it, and takes that of the left side: NULL for rows of
//! the right side only. So `*` is written out, and where a side may be missing, the column and the condition of the join are, too.
//!
//! Columns have been named before, after the expressions as they are written.

use std::mem;
use std::ops::ControlFlow;

use datafusion::common::{DFSchemaRef, DataFusionError, Result};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Cte, ExceptSelectItem, ExcludeSelectItem, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, Ident, JoinConstraint, JoinOperator, ObjectName, OrderByKind,
    Query, Select, SelectItem, SetExpr, TableFactor, TableWithJoins, Value, VisitorMut,
    WildcardAdditionalOptions, With,
};

use crate::logical::same_name;
use crate::refusal::refuse;
use tidemill_trees::syntax::{Node, walk_mut};

/// Plans a query, and returns its columns.
pub(crate) type ColumnsOf<'a> = &'a dyn Fn(Query) -> Result<DFSchemaRef>;

/// Writes out the columns of such joins in a query.
///
/// # Errors
/// If the columns of a table cannot be found, and are needed.
pub(crate) fn translate(query: &mut Query, columns_of: ColumnsOf<'_>) -> Result<()> {
    let mut joins = Joins { columns_of, scopes: Vec::new(), error: None };
    let _ = walk_mut(query, &mut joins);
    joins.error.map_or(Ok(()), Err)
}

/// Returns whether a constraint joins columns that have one name.
fn is_named(constraint: &JoinConstraint) -> bool {
    matches!(constraint, JoinConstraint::Using(_) | JoinConstraint::Natural)
}

/// A query around the place of the walk.
#[derive(Default)]
struct Scope {
    is_recursive: bool,
    /// The parts that WITH names, as they were written.
    written: Vec<Cte>,
    /// Those that have been translated.
    done: Vec<Cte>,
    /// The columns of the last SELECT that have to be written out.
    written_out: Vec<CommonColumn>,
}

/// A column of joined tables.
#[derive(Clone)]
struct CommonColumn {
    name: String,
    value: Expr,
}

struct Joins<'a> {
    columns_of: ColumnsOf<'a>,
    scopes: Vec<Scope>,
    error: Option<DataFusionError>,
}

impl VisitorMut for Joins<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let scope = query.with.as_ref().map_or_else(Scope::default, |with| Scope {
            is_recursive: with.recursive,
            written: with.cte_tables.clone(),
            ..Scope::default()
        });
        self.scopes.push(scope);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let Some(scope) = self.scopes.pop() else { return ControlFlow::Continue(()) };
        if let (SetExpr::Select(select), Some(order)) = (query.body.as_ref(), &mut query.order_by)
            && !scope.written_out.is_empty()
            && let OrderByKind::Expressions(orders) = &mut order.kind
        {
            // A column of the answer comes first.
            let outputs: Vec<String> = select.projection.iter().filter_map(output_name).collect();
            let hidden = scope.written_out.iter().filter(|column| !outputs.contains(&column.name));
            let hidden: Vec<CommonColumn> = hidden.cloned().collect();
            orders.iter_mut().for_each(|order| write_out(&mut order.expr, &hidden));
        }
        if let Some(outer) = self.scopes.last_mut()
            && let Some(written) = outer.written.get(outer.done.len())
        {
            outer.done.push(Cte { query: Box::new(query.clone()), ..written.clone() });
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        match self.select(select) {
            Ok(written_out) => {
                if let Some(scope) = self.scopes.last_mut() {
                    scope.written_out = written_out;
                }
                ControlFlow::Continue(())
            }
            Err(error) => {
                self.error = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

impl Joins<'_> {
    /// Returns the columns that are written out.
    fn select(&self, select: &mut Select) -> Result<Vec<CommonColumn>> {
        let [tables] = select.from.as_mut_slice() else {
            return select.from.iter().try_for_each(check).map(|()| Vec::new());
        };
        if !has_named(tables) {
            return Ok(Vec::new());
        }
        // DataFusion knows the joined column of two tables only.
        let is_outer = may_lack_left(tables) || named_joins(tables) > 1;
        let mut joined = Joined { is_written_out: is_outer, ..Joined::default() };
        if !self.tables(tables, &mut joined) {
            check(tables)?;
            return Ok(Vec::new());
        }
        let Joined { columns, shared, .. } = joined;
        let items = mem::take(&mut select.projection).into_iter();
        select.projection = items.flat_map(|item| written_star(item, &columns)).collect();
        if is_outer {
            let from = mem::take(&mut select.from);
            for item in &mut select.projection {
                keep_name(item, &shared);
            }
            write_out(select, &shared);
            select.from = from;
            return Ok(shared);
        }
        Ok(Vec::new())
    }

    /// Adds the columns of tables; returns whether all of them were found.
    fn tables(&self, tables: &mut TableWithJoins, joined: &mut Joined) -> bool {
        let Some(columns) = self.columns(&mut tables.relation, joined) else { return false };
        joined.columns = columns;
        for join in &mut tables.joins {
            let Some(right) = self.columns(&mut join.relation, joined) else { return false };
            if !joined.join(&mut join.join_operator, right) {
                return false;
            }
        }
        true
    }

    /// The columns of one table.
    fn columns(&self, table: &mut TableFactor, joined: &mut Joined) -> Option<Vec<CommonColumn>> {
        if let TableFactor::NestedJoin { table_with_joins, alias: None } = table {
            let mut within = Joined { is_written_out: joined.is_written_out, ..Joined::default() };
            if !self.tables(table_with_joins, &mut within) {
                return None;
            }
            joined.shared.extend(within.shared);
            return Some(within.columns);
        }
        let qualifier = qualifier(table)?;
        let schema = (self.columns_of)(self.all_of(table)).ok()?;
        let names: Vec<&String> = schema.fields().iter().map(|field| field.name()).collect();
        let is_twice = names.iter().enumerate().any(|(at, name)| names[..at].contains(name));
        let column = |name: &&String| CommonColumn {
            name: (*name).clone(),
            value: Expr::CompoundIdentifier(
                qualifier.iter().cloned().chain([Ident::with_quote('"', name.as_str())]).collect(),
            ),
        };
        (!is_twice).then(|| names.iter().map(column).collect())
    }

    /// `SELECT * FROM table`, with what WITH names around it.
    fn all_of(&self, table: &TableFactor) -> Query {
        use datafusion::sql::sqlparser::dialect::GenericDialect;
        use datafusion::sql::sqlparser::parser::Parser;
        let parser = Parser::new(&GenericDialect {}).try_with_sql("SELECT * FROM t");
        // The text is a query.
        #[expect(clippy::expect_used)]
        let mut query =
            *parser.and_then(|mut parser| parser.parse_query()).expect("a constant text is a query");
        if let SetExpr::Select(select) = query.body.as_mut() {
            select.from = vec![TableWithJoins { relation: table.clone(), joins: Vec::new() }];
        }
        let known = self.scopes.iter().flat_map(|scope| {
            // A part of WITH RECURSIVE may read itself.
            let itself = scope.written.get(scope.done.len()).filter(|_| scope.is_recursive);
            scope.done.iter().chain(itself).cloned()
        });
        let mut cte_tables: Vec<Cte> = Vec::new();
        for cte in known {
            cte_tables.retain(|hidden| hidden.alias.name.value != cte.alias.name.value);
            cte_tables.push(cte);
        }
        let recursive = self.scopes.iter().any(|scope| scope.is_recursive);
        query.with =
            (!cte_tables.is_empty()).then(|| With { with_token: query_token(), recursive, cte_tables });
        query
    }
}

fn query_token() -> datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken {
    datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken::empty()
}

/// What tables that are joined have.
#[derive(Default)]
struct Joined {
    /// Whether the joined columns are written as expressions.
    is_written_out: bool,
    /// The columns of `*`.
    columns: Vec<CommonColumn>,
    /// The joined columns, the last ones first found.
    shared: Vec<CommonColumn>,
}

impl Joined {
    /// Joins with the columns of another table; returns whether it could.
    fn join(&mut self, operator: &mut JoinOperator, right: Vec<CommonColumn>) -> bool {
        match operator {
            JoinOperator::LeftSemi(constraint) | JoinOperator::LeftAnti(constraint) => {
                return self.condition(constraint);
            }
            JoinOperator::RightSemi(constraint) | JoinOperator::RightAnti(constraint) => {
                self.columns = right;
                return self.condition(constraint);
            }
            JoinOperator::CrossJoin(_) => {
                self.columns.extend(right);
                return true;
            }
            _ => {}
        }
        let (constraint, side) = match operator {
            JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) => (constraint, Side::Left),
            JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => (constraint, Side::Left),
            JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => {
                (constraint, Side::Right)
            }
            JoinOperator::FullOuter(constraint) => (constraint, Side::Either),
            _ => return false,
        };
        let names: Vec<String> = match constraint {
            JoinConstraint::Using(names) => match names.iter().map(name_of).collect::<Option<_>>() {
                Some(names) => names,
                None => return false,
            },
            JoinConstraint::Natural => {
                let is_common = |column: &&CommonColumn| right.iter().any(|other| other.name == column.name);
                self.columns.iter().filter(is_common).map(|column| column.name.clone()).collect()
            }
            _ => {
                self.columns.extend(right);
                return self.condition(constraint);
            }
        };
        let mut common = Vec::new();
        let mut conditions = Vec::new();
        // The names that both sides have for them, which may differ in case.
        let mut joined: Vec<String> = Vec::new();
        for name in &names {
            let Some(one) = only(&self.columns, name) else { return false };
            let Some(other) = only(&right, name) else { return false };
            let value = match side {
                _ if !self.is_written_out => Expr::Identifier(quoted(&one.name)),
                Side::Left => one.value.clone(),
                Side::Right => other.value.clone(),
                Side::Either => coalesce(one.value.clone(), other.value.clone()),
            };
            if !self.is_written_out && one.name != other.name {
                return false;
            }
            conditions.push(equal(one.value.clone(), other.value.clone()));
            common.push(CommonColumn { name: one.name.clone(), value });
            joined.extend([one.name.clone(), other.name.clone()]);
        }
        if self.is_written_out {
            let condition = conditions.into_iter().reduce(both);
            let always = || Expr::value(Value::Boolean(true));
            *constraint = JoinConstraint::On(condition.unwrap_or_else(always));
            self.shared.retain(|known| !joined.contains(&known.name));
            self.shared.extend(common.iter().cloned());
        } else if !names.is_empty() {
            let names = common.iter().map(|column| ObjectName::from(vec![quoted(&column.name)]));
            *constraint = JoinConstraint::Using(names.collect());
        }
        let rest = mem::take(&mut self.columns).into_iter().chain(right);
        let rest = rest.filter(|column| !joined.contains(&column.name));
        self.columns = common.into_iter().chain(rest).collect();
        true
    }

    /// Writes out what a condition reads of columns that were joined before.
    fn condition(&self, constraint: &mut JoinConstraint) -> bool {
        match constraint {
            JoinConstraint::On(condition) => {
                write_out(condition, &self.shared);
                true
            }
            constraint => !is_named(constraint),
        }
    }
}

#[derive(Clone, Copy)]
enum Side {
    Left,
    Right,
    Either,
}

/// The only column of a name, or else the only one whose name differs in case.
fn only<'a>(columns: &'a [CommonColumn], name: &str) -> Option<&'a CommonColumn> {
    let single = |is_meant: &dyn Fn(&str) -> bool| {
        let mut named = columns.iter().filter(|column| is_meant(&column.name));
        named.next().filter(|_| named.next().is_none())
    };
    single(&|known| known == name).or_else(|| single(&|known| known.eq_ignore_ascii_case(name)))
}

fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

fn has_named(tables: &TableWithJoins) -> bool {
    let within = |table: &TableFactor| match table {
        TableFactor::NestedJoin { table_with_joins, alias: None } => has_named(table_with_joins),
        _ => false,
    };
    within(&tables.relation)
        || tables
            .joins
            .iter()
            .any(|join| within(&join.relation) || constraint(&join.join_operator).is_some_and(is_named))
}

/// Returns how many joins have columns of one name.
fn named_joins(tables: &TableWithJoins) -> usize {
    let within = |table: &TableFactor| match table {
        TableFactor::NestedJoin { table_with_joins, alias: None } => named_joins(table_with_joins),
        _ => 0,
    };
    let joins = tables.joins.iter().map(|join| {
        within(&join.relation) + usize::from(constraint(&join.join_operator).is_some_and(is_named))
    });
    within(&tables.relation) + joins.sum::<usize>()
}

/// Returns whether a joined column may be missing on the left side.
fn may_lack_left(tables: &TableWithJoins) -> bool {
    let within = |table: &TableFactor| match table {
        TableFactor::NestedJoin { table_with_joins, alias: None } => may_lack_left(table_with_joins),
        _ => false,
    };
    within(&tables.relation)
        || tables.joins.iter().any(|join| within(&join.relation) || lacks_left(&join.join_operator))
}

fn lacks_left(operator: &JoinOperator) -> bool {
    matches!(
        operator,
        JoinOperator::Right(constraint)
            | JoinOperator::RightOuter(constraint)
            | JoinOperator::FullOuter(constraint) if is_named(constraint)
    )
}

/// Refuses joins whose columns would be those of the wrong side.
fn check(tables: &TableWithJoins) -> Result<()> {
    if !may_lack_left(tables) {
        return Ok(());
    }
    Err(refuse(
        "the columns of this RIGHT or FULL JOIN with USING or NATURAL are not known",
        "give each table in FROM a name, or write ON a.key = b.key, and SELECT coalesce(a.key, b.key)",
    ))
}

fn constraint(operator: &JoinOperator) -> Option<&JoinConstraint> {
    match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint) => Some(constraint),
        _ => None,
    }
}

/// The name by which the columns of a table are qualified.
fn qualifier(table: &TableFactor) -> Option<Vec<Ident>> {
    match table {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. } => Some(vec![alias.name.clone()]),
        TableFactor::Table { name, alias: None, args: None, .. } => {
            name.0.iter().map(|part| part.as_ident().cloned()).collect()
        }
        _ => None,
    }
}

/// A name as the planner has it.
fn name_of(name: &ObjectName) -> Option<String> {
    name.0.last()?.as_ident().map(normal)
}

fn normal(name: &Ident) -> String {
    if name.quote_style.is_none() { name.value.to_lowercase() } else { name.value.clone() }
}

fn equal(left: Expr, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::Eq, right: Box::new(right) }
}

fn both(left: Expr, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::And, right: Box::new(right) }
}

fn coalesce(one: Expr, other: Expr) -> Expr {
    let argument = |value| FunctionArg::Unnamed(FunctionArgExpr::Expr(value));
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new("coalesce")]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: vec![argument(one), argument(other)],
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// Returns the columns of `*`; anything else as it is.
fn written_star(item: SelectItem, columns: &[CommonColumn]) -> Vec<SelectItem> {
    let SelectItem::Wildcard(options) = &item else { return vec![item] };
    let Some(excluded) = excluded(options).filter(|names| {
        options.opt_ilike.is_none()
            && options.opt_rename.is_none()
            && options.opt_alias.is_none()
            && names.iter().all(|name| columns.iter().any(|column| column.name == *name))
    }) else {
        return vec![item];
    };
    let replacement = |column: &CommonColumn| {
        let mut items = options.opt_replace.iter().flat_map(|replace| &replace.items);
        items.find(|replaced| normal(&replaced.column_name) == column.name).map(|item| item.expr.clone())
    };
    let kept: Vec<&CommonColumn> = columns.iter().filter(|column| !excluded.contains(&column.name)).collect();
    let is_again = |at: usize| kept[..at].iter().any(|before| before.name == kept[at].name);
    let each = kept.iter().enumerate();
    each.map(|(at, column)| match (replacement(column), &column.value) {
        // Plans have no two columns of one name.
        (replaced, value) if is_again(at) => SelectItem::ExprWithAlias {
            expr: replaced.unwrap_or_else(|| value.clone()),
            alias: Ident::with_quote('"', same_name(&column.name, at + 1)),
        },
        (None, Expr::CompoundIdentifier(parts)) if is_called(parts, &column.name) => {
            SelectItem::UnnamedExpr(column.value.clone())
        }
        (None, Expr::Identifier(_)) => SelectItem::UnnamedExpr(column.value.clone()),
        (replaced, value) => SelectItem::ExprWithAlias {
            expr: replaced.unwrap_or_else(|| value.clone()),
            alias: Ident::with_quote('"', column.name.as_str()),
        },
    })
    .collect()
}

fn is_called(parts: &[Ident], name: &str) -> bool {
    parts.last().is_some_and(|last| last.value == name)
}

/// The columns that are left out of `*`.
fn excluded(options: &WildcardAdditionalOptions) -> Option<Vec<String>> {
    let mut names = match &options.opt_exclude {
        None => Vec::new(),
        Some(ExcludeSelectItem::Single(name)) => vec![name_of(name)?],
        Some(ExcludeSelectItem::Multiple(names)) => names.iter().map(name_of).collect::<Option<_>>()?,
    };
    if let Some(ExceptSelectItem { first_element, additional_elements }) = &options.opt_except {
        names.extend(std::iter::once(first_element).chain(additional_elements).map(normal));
    }
    Some(names)
}

fn output_name(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(normal(alias)),
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(normal(name)),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last().map(normal),
        _ => None,
    }
}

/// Names a column that is going to be written out.
fn keep_name(item: &mut SelectItem, shared: &[CommonColumn]) {
    let SelectItem::UnnamedExpr(Expr::Identifier(name)) = item else { return };
    let name = normal(name);
    if let Some(column) = shared.iter().find(|column| column.name == name) {
        let alias = Ident::with_quote('"', name.as_str());
        *item = SelectItem::ExprWithAlias { expr: column.value.clone(), alias };
    }
}

/// Puts the values of joined columns in place of their names, but for queries within.
fn write_out(node: &mut impl Node, shared: &[CommonColumn]) {
    struct Names<'a> {
        shared: &'a [CommonColumn],
        depth: usize,
    }
    impl VisitorMut for Names<'_> {
        type Break = ();

        fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
            self.depth += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
            self.depth -= 1;
            ControlFlow::Continue(())
        }

        fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
            if self.depth == 0
                && let Expr::Identifier(name) = expression
                && let Some(column) = only(self.shared, &normal(name))
            {
                *expression = column.value.clone();
            }
            ControlFlow::Continue(())
        }
    }
    let _ = walk_mut(node, &mut Names { shared, depth: 0 });
}
