//! SELECT and its clauses.

use datafusion::sql::sqlparser::ast::{
    ConnectByKind, Distinct, Expr, GroupByExpr, GroupByWithModifier, Ident, NamedWindowDefinition,
    NamedWindowExpr, ReplaceSelectElement, ReplaceSelectItem, Select, SelectFlavor, SelectItem,
    SelectItemQualifiedWildcardKind, Spanned, TableWithJoins, Visitor, WildcardAdditionalOptions, WindowType,
};
use datafusion::sql::sqlparser::tokenizer::Span as TokenSpan;
use std::ops::ControlFlow;

use super::{Checked, Clauses, PLANNED};
use tidemill_trees::syntax::walk;

impl Clauses<'_> {
    pub(super) fn select(&self, select: &Select) -> Checked {
        let Select {
            select_token: _,
            optimizer_hints,
            distinct,
            select_modifiers,
            top,
            // Where TOP stands, if it stands anywhere.
            top_before_distinct: _,
            projection,
            exclude,
            into,
            from,
            lateral_views,
            prewhere,
            selection: _,
            connect_by,
            group_by,
            cluster_by,
            distribute_by,
            sort_by,
            having: _,
            named_window,
            qualify,
            // Only the order of two clauses.
            window_before_qualify: _,
            value_table_mode,
            flavor,
        } = select;
        match distinct {
            None | Some(Distinct::All | Distinct::Distinct | Distinct::On(_)) => {}
        }
        match flavor {
            SelectFlavor::Standard | SelectFlavor::FromFirst | SelectFlavor::FromFirstNoSelect => {}
        }
        if !optimizer_hints.is_empty() {
            self.node(select, "optimizer hints are not part of the language", "remove them")?;
        }
        if select_modifiers.is_some() {
            self.node(select, "SELECT with modifiers is not part of the language", "remove them")?;
        }
        if top.is_some() {
            self.clause(select, &["TOP"], "write LIMIT n at the end of the query")?;
        }
        if value_table_mode.is_some() {
            self.clause(select, &["AS"], "name the columns: SELECT a, b")?;
        }
        if projection.is_empty() {
            self.node(select, "SELECT without columns", "name columns, or write SELECT *")?;
        }
        self.items(projection, select.span())?;
        if exclude.is_some() {
            self.clause(select, &["EXCLUDE"], "write it after the star: SELECT * EXCLUDE (column)")?;
        }
        if into.is_some() {
            let hint = "write CREATE VIEW name AS SELECT ..., or INSERT INTO sink SELECT ...";
            self.clause(select, &["INTO"], hint)?;
        }
        for TableWithJoins { relation: _, joins } in from {
            joins.iter().try_for_each(|join| self.join(join))?;
        }
        if !lateral_views.is_empty() {
            self.clause(select, &["LATERAL", "VIEW"], "write SELECT unnest(list)")?;
        }
        if prewhere.is_some() {
            self.clause(select, &["PREWHERE"], "write WHERE: conditions are applied as early as possible")?;
        }
        self.hierarchy(connect_by, select)?;
        self.group_by(group_by, select)?;
        let by = "remove it: a query does not state how rows are divided among workers";
        if !cluster_by.is_empty() {
            self.clause(select, &["CLUSTER", "BY"], by)?;
        }
        if !distribute_by.is_empty() {
            self.clause(select, &["DISTRIBUTE", "BY"], by)?;
        }
        if !sort_by.is_empty() {
            self.clause(select, &["SORT", "BY"], "write ORDER BY")?;
        }
        for NamedWindowDefinition(name, window) in named_window {
            match window {
                NamedWindowExpr::WindowSpec(spec) => self.window(spec)?,
                NamedWindowExpr::NamedWindow(other) => {
                    let message = format!("window {name} is only another name for {other}");
                    self.words(
                        other.span,
                        &[],
                        message,
                        "write the window in full: WINDOW w AS (PARTITION BY ...)",
                    )?;
                }
            }
        }
        match qualify {
            None => PLANNED,
            Some(qualify) => {
                let hint = "write the window in full, OVER (PARTITION BY ... ORDER BY ...), or name the \
                    function in SELECT and use that name";
                self.named_windows(qualify, "QUALIFY", hint)
            }
        }
    }

    fn hierarchy(&self, connect_by: &[ConnectByKind], select: &Select) -> Checked {
        connect_by.iter().try_for_each(|kind| {
            let words: &[&str] = match kind {
                ConnectByKind::ConnectBy { connect_token: _, nocycle: _, relationships: _ } => {
                    &["CONNECT", "BY"]
                }
                ConnectByKind::StartWith { start_token: _, condition: _ } => &["START", "WITH"],
            };
            self.clause(select, words, "join the source with itself, once for each level")
        })
    }

    fn group_by(&self, group_by: &GroupByExpr, select: &Select) -> Checked {
        let modifiers = match group_by {
            GroupByExpr::All(modifiers) | GroupByExpr::Expressions(_, modifiers) => modifiers,
        };
        modifiers.iter().try_for_each(|modifier| {
            let (words, hint): (&[&str], _) = match modifier {
                GroupByWithModifier::Rollup => (&["WITH", "ROLLUP"], "write GROUP BY ROLLUP (a, b)"),
                GroupByWithModifier::Cube => (&["WITH", "CUBE"], "write GROUP BY CUBE (a, b)"),
                GroupByWithModifier::Totals => {
                    (&["WITH", "TOTALS"], "compute the totals in a second query without GROUP BY")
                }
                GroupByWithModifier::GroupingSets(_) => {
                    (&["GROUPING", "SETS"], "write GROUP BY GROUPING SETS ((a, b), (a), ())")
                }
            };
            self.clause(select, words, hint)
        })
    }

    /// The selected items. `place` is where to look for words that have no place of their own.
    pub(super) fn items(&self, items: &[SelectItem], place: TokenSpan) -> Checked {
        items.iter().try_for_each(|item| match item {
            SelectItem::UnnamedExpr(_) => PLANNED,
            SelectItem::ExprWithAlias { expr, alias } => self.column_name(expr, alias),
            SelectItem::ExprWithAliases { expr, aliases: _ } => {
                self.node(expr, "several names for one column", "give it one name with AS")
            }
            SelectItem::Wildcard(options) => self.wildcard(options, place),
            SelectItem::QualifiedWildcard(kind, options) => {
                if let SelectItemQualifiedWildcardKind::Expr(of) = kind {
                    self.node(of, "a star after an expression", "name the fields: (expression)['field']")?;
                }
                self.wildcard(options, place)
            }
        })
    }

    /// A text in single quotes is not a name.
    fn column_name(&self, expression: &Expr, alias: &Ident) -> Checked {
        if alias.quote_style != Some('\'') {
            return PLANNED;
        }
        let message = format!("the text '{}' stands where the name of a column would", alias.value);
        let hint = format!("write AS \"{}\" for a name, or an operator before the text", alias.value);
        self.node(expression, message, &hint)
    }

    pub(super) fn wildcard(&self, options: &WildcardAdditionalOptions, place: TokenSpan) -> Checked {
        let WildcardAdditionalOptions {
            wildcard_token,
            opt_ilike,
            opt_exclude: _,
            opt_except: _,
            opt_replace,
            opt_rename,
            opt_alias,
        } = options;
        let place = if wildcard_token.0.span == TokenSpan::empty() { place } else { wildcard_token.0.span };
        let refused = |words: &[&str], hint: &str| {
            self.words(place, words, format!("* {} is not part of the language", words.join(" ")), hint)
        };
        if opt_ilike.is_some() {
            refused(&["ILIKE"], "name the columns")?;
        }
        if let Some(ReplaceSelectItem { items }) = opt_replace {
            for item in items {
                let ReplaceSelectElement { expr: _, column_name: _, as_keyword: _ } = item.as_ref();
            }
        }
        if opt_rename.is_some() {
            refused(&["RENAME"], "name the columns: SELECT a AS b")?;
        }
        match opt_alias {
            Some(_) => refused(&["AS"], "give each column a name: SELECT a AS b"),
            None => PLANNED,
        }
    }

    /// Only the columns of SELECT can refer to named windows.
    pub(super) fn named_windows(&self, expression: &Expr, clause: &str, hint: &str) -> Checked {
        struct Named;
        impl Visitor for Named {
            type Break = TokenSpan;

            fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<TokenSpan> {
                if let Expr::Function(call) = expression
                    && let Some(WindowType::NamedWindow(name)) = &call.over
                {
                    return ControlFlow::Break(name.span);
                }
                ControlFlow::Continue(())
            }
        }
        match walk(expression, &mut Named) {
            ControlFlow::Continue(()) => PLANNED,
            ControlFlow::Break(place) => {
                let message = format!("the name of a window inside {clause} is not part of the language");
                self.words(place, &[], message, hint)
            }
        }
    }
}
