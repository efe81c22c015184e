//! Words of the standard and of PostgreSQL that others say as well: `FETCH FIRST 3 ROWS ONLY` is `LIMIT 3`, and
//! `FROM generate_series(1, 3)` is `FROM unnest(generate_series(1, 3))`.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Fetch, Function, FunctionArg, FunctionArgumentList, FunctionArguments, LimitClause, ObjectName,
    ObjectNamePart, Query, TableAlias, TableAliasColumnDef, TableFactor, TableFunctionArgs, Value,
    VisitorMut,
};

use tidemill_trees::syntax::walk_mut;

/// Functions that give an array, and in PostgreSQL or DuckDB rows.
const SERIES: [&str; 2] = ["generate_series", "range"];

struct StandardWords;

impl VisitorMut for StandardWords {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        limit_for_fetch(query);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let Some(unnested) = unnested_series(factor) {
            *factor = unnested;
        }
        ControlFlow::Continue(())
    }
}

/// Writes a query with the words that the planner knows, here and in subqueries.
pub(crate) fn translate(query: &mut Query) {
    let _ = walk_mut(query, &mut StandardWords);
}

fn limit_for_fetch(query: &mut Query) {
    let Some(Fetch { with_ties: false, percent: false, quantity }) = &query.fetch else { return };
    // FETCH FIRST ROW ONLY means one.
    let quantity = quantity.clone().unwrap_or_else(|| Expr::value(Value::Number("1".to_owned(), false)));
    match &mut query.limit_clause {
        Some(LimitClause::LimitOffset { limit: limit @ None, .. }) => *limit = Some(quantity),
        Some(_) => return,
        clause @ None => {
            let limit_by = Vec::new();
            *clause = Some(LimitClause::LimitOffset { limit: Some(quantity), offset: None, limit_by });
        }
    }
    query.fetch = None;
}

/// A series of rows, which has the name of its table as the name of its column.
fn unnested_series(factor: &TableFactor) -> Option<TableFactor> {
    let TableFactor::Table {
        name,
        alias,
        args: Some(TableFunctionArgs { args, settings: None }),
        with_hints,
        version: None,
        with_ordinality,
        partitions,
        json_path: None,
        sample: None,
        index_hints,
    } = factor
    else {
        return None;
    };
    if !(with_hints.is_empty() && partitions.is_empty() && index_hints.is_empty()) {
        return None;
    }
    let [ObjectNamePart::Identifier(function)] = &name.0[..] else { return None };
    if !SERIES.iter().any(|series| function.value.eq_ignore_ascii_case(series)) {
        return None;
    }
    let mut alias = alias.clone().unwrap_or_else(|| TableAlias {
        explicit: true,
        name: function.clone(),
        columns: Vec::new(),
        at: None,
    });
    if alias.columns.is_empty() {
        alias.columns.push(TableAliasColumnDef { name: alias.name.clone(), data_type: None });
    }
    Some(TableFactor::UNNEST {
        alias: Some(alias),
        array_exprs: vec![call(name.clone(), args.clone())],
        with_offset: false,
        with_offset_alias: None,
        with_ordinality: *with_ordinality,
    })
}

fn call(name: ObjectName, args: Vec<FunctionArg>) -> Expr {
    let list = FunctionArgumentList { duplicate_treatment: None, args, clauses: Vec::new() };
    Expr::Function(Function {
        name,
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(list),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}
