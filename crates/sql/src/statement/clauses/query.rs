//! A query around its SELECT: WITH, ORDER BY, LIMIT, and the clauses that other databases write after them.

use datafusion::sql::sqlparser::ast::{
    Cte, Expr, ExprWithAlias, ExprWithAliasAndOrderBy, LimitClause, Offset, OffsetRows, OrderBy, OrderByExpr,
    OrderByKind, OrderByOptions, PipeOperator, Query, SetExpr, Spanned, With,
};

use super::{Checked, Clauses, PLANNED};

const LIMIT: &str = "write LIMIT n at the end of the query";

impl Clauses<'_> {
    pub(super) fn query(&self, query: &Query) -> Checked {
        let Query {
            with,
            body,
            order_by,
            limit_clause,
            fetch,
            locks,
            for_clause,
            settings,
            format_clause,
            pipe_operators,
        } = query;
        if let Some(with) = with {
            self.with(with)?;
        }
        self.body(body, query)?;
        if let Some(order_by) = order_by {
            self.order_by(order_by, body)?;
        }
        if let Some(limit) = limit_clause {
            self.limit(limit, query)?;
        }
        if fetch.is_some() {
            self.clause(query, &["FETCH"], LIMIT)?;
        }
        if !locks.is_empty() {
            self.clause(
                query,
                &["FOR"],
                "remove it: nothing is locked, and each cycle is visible only as a \
                whole",
            )?;
        }
        if for_clause.is_some() {
            self.clause(
                query,
                &["FOR"],
                "choose the format of the output: CREATE SINK ... WITH (format = 'json')",
            )?;
        }
        if settings.is_some() {
            self.clause(
                query,
                &["SETTINGS"],
                "write SET name = value before the query; SHOW SETTINGS lists them",
            )?;
        }
        if format_clause.is_some() {
            self.clause(
                query,
                &["FORMAT"],
                "choose the format of the output: CREATE SINK ... WITH (format = 'json')",
            )?;
        }
        for pipe in pipe_operators {
            self.pipe(pipe, query)?;
        }
        PLANNED
    }

    fn with(&self, with: &With) -> Checked {
        let With { with_token: _, recursive, cte_tables } = with;
        for cte in cte_tables {
            let Cte { alias, query, from, materialized, closing_paren_token: _ } = cte;
            self.alias(alias)?;
            if let Some(from) = from {
                self.words(
                    from.span,
                    &[],
                    "FROM after a query in WITH is not part of the language".into(),
                    "remove it",
                )?;
            }
            if materialized.is_some() {
                self.clause(cte, &["MATERIALIZED"], "remove it: it does not change any result")?;
            }
            if *recursive {
                self.recursive(query)?;
            }
        }
        PLANNED
    }

    /// Only the two sides of a UNION in WITH RECURSIVE are planned.
    fn recursive(&self, query: &Query) -> Checked {
        // The others are refused in every query.
        let Query {
            with,
            body,
            order_by,
            limit_clause,
            fetch: _,
            locks: _,
            for_clause: _,
            settings: _,
            format_clause: _,
            pipe_operators,
        } = query;
        if !matches!(body.as_ref(), SetExpr::SetOperation { .. }) {
            return PLANNED;
        }
        let hint = "move it into the query that reads this one, or remove RECURSIVE";
        let message = |clause: &str| format!("{clause} is not supported inside WITH RECURSIVE");
        if with.is_some() {
            self.words(query.span(), &["WITH"], message("WITH"), hint)?;
        }
        if order_by.is_some() {
            self.words(query.span(), &["ORDER", "BY"], message("ORDER BY"), hint)?;
        }
        if limit_clause.is_some() {
            self.words(query.span(), &["LIMIT"], message("LIMIT"), hint)?;
        }
        if !pipe_operators.is_empty() {
            self.node(query, message("|>"), hint)?;
        }
        PLANNED
    }

    fn order_by(&self, order_by: &OrderBy, body: &SetExpr) -> Checked {
        let OrderBy { kind, interpolate } = order_by;
        if interpolate.is_some() {
            self.clause(order_by, &["INTERPOLATE"], "remove it: no rows are added")?;
        }
        match kind {
            OrderByKind::All(OrderByOptions { asc: _, nulls_first: _ })
                if !matches!(body, SetExpr::Select(_)) =>
            {
                let message = "ORDER BY ALL after UNION, EXCEPT or INTERSECT is not part of the language";
                self.words(
                    body.span(),
                    &["ORDER", "BY", "ALL"],
                    message.into(),
                    "name the columns: ORDER BY 1, 2",
                )
            }
            OrderByKind::All(OrderByOptions { asc: _, nulls_first: _ }) => PLANNED,
            OrderByKind::Expressions(expressions) => {
                self.orders(expressions)?;
                let named = "write the window in full, OVER (PARTITION BY ... ORDER BY ...), or name the \
                    function in SELECT and order by that name";
                expressions.iter().try_for_each(|order| self.named_windows(&order.expr, "ORDER BY", named))
            }
        }
    }

    /// The expressions of any ORDER BY, of a query or within a function.
    pub(super) fn orders(&self, orders: &[OrderByExpr]) -> Checked {
        orders.iter().try_for_each(|order| {
            let OrderByExpr { expr: _, options: OrderByOptions { asc: _, nulls_first: _ }, with_fill } =
                order;
            match with_fill {
                None => PLANNED,
                Some(_) => self.clause(order, &["WITH", "FILL"], "remove it: no rows are added"),
            }
        })
    }

    fn limit(&self, limit: &LimitClause, query: &Query) -> Checked {
        match limit {
            LimitClause::LimitOffset { limit: _, offset, limit_by } => {
                match offset {
                    None
                    | Some(Offset {
                        value: _,
                        rows: OffsetRows::None | OffsetRows::Row | OffsetRows::Rows,
                    }) => {}
                }
                if limit_by.is_empty() {
                    PLANNED
                } else {
                    let hint = "number the rows with ROW_NUMBER() OVER (PARTITION BY ...) in a subquery, and keep \
                                    the first ones";
                    self.words(
                        limit_by.first().map_or(query.span(), Expr::span),
                        &[],
                        "LIMIT BY is not part of the language".into(),
                        hint,
                    )
                }
            }
            LimitClause::OffsetCommaLimit { offset: _, limit: _ } => PLANNED,
        }
    }

    fn pipe(&self, pipe: &PipeOperator, query: &Query) -> Checked {
        let refused = |words: &[&str], hint: &str| {
            let message = format!("|> {} is not part of the language", words.join(" "));
            self.words(query.span(), words, message, hint)
        };
        let select = "write |> SELECT with the remaining columns";
        match pipe {
            PipeOperator::Limit { expr: _, offset: _ } | PipeOperator::Where { expr: _ } => PLANNED,
            PipeOperator::As { alias: _ } => PLANNED,
            PipeOperator::OrderBy { exprs } => self.orders(exprs),
            PipeOperator::Select { exprs } | PipeOperator::Extend { exprs } => {
                self.items(exprs, query.span())
            }
            PipeOperator::Aggregate { full_table_exprs, group_by_expr } => {
                full_table_exprs.iter().chain(group_by_expr).try_for_each(|item| {
                    let ExprWithAliasAndOrderBy { expr, order_by: OrderByOptions { asc, nulls_first } } =
                        item;
                    let ExprWithAlias { expr, alias: _ } = expr;
                    if asc.is_some() || nulls_first.is_some() {
                        self.node(expr, "|> AGGREGATE cannot order its rows", "write |> ORDER BY after it")
                    } else {
                        PLANNED
                    }
                })
            }
            PipeOperator::Union { set_quantifier: _, queries: _ }
            | PipeOperator::Intersect { set_quantifier: _, queries: _ }
            | PipeOperator::Except { set_quantifier: _, queries: _ } => PLANNED,
            PipeOperator::Join(join) => self.join(join),
            PipeOperator::Set { assignments: _ } => refused(&["SET"], select),
            PipeOperator::Drop { columns: _ } => refused(&["DROP"], select),
            PipeOperator::Rename { mappings: _ } => refused(&["RENAME"], select),
            PipeOperator::TableSample { sample: _ } => refused(&["TABLESAMPLE"], super::relation::SAMPLE),
            PipeOperator::Call { function: _, alias: _ } => {
                refused(&["CALL"], "call the function in FROM: FROM name(TABLE(input))")
            }
            PipeOperator::Pivot { aggregate_functions: _, value_column: _, value_source: _, alias: _ } => {
                refused(&["PIVOT"], super::relation::PIVOT)
            }
            PipeOperator::Unpivot { value_column: _, name_column: _, unpivot_columns: _, alias: _ } => {
                refused(&["UNPIVOT"], super::relation::UNPIVOT)
            }
        }
    }
}
