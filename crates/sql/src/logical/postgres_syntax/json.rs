//! Functions of JSON that are others of ours: `jsonb_agg(x)` is `jsonb(array_to_json(array_agg(x)))`, and `FROM jsonb_array_elements(x)` is
//! `FROM unnest(json_items(x))`.

use datafusion::sql::sqlparser::ast::{
    DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, TableAlias,
    TableAliasColumnDef, TableFactor,
};

use super::syntax::{call, ident};

/// Functions that give rows, and the functions that give the same as a list.
const ROWS: [(&str, &str); 6] = [
    ("json_array_elements", "json_items"),
    ("json_array_elements_text", "json_item_texts"),
    ("json_object_keys", "json_keys"),
    ("jsonb_array_elements", "json_items"),
    ("jsonb_array_elements_text", "json_item_texts"),
    ("jsonb_object_keys", "json_keys"),
];

/// Returns the text that a cast to JSON or JSONB gives.
pub(super) fn checked(text: Expr, data_type: &DataType) -> Expr {
    let name = if matches!(data_type, DataType::JSONB) { "jsonb" } else { "json" };
    call(ident(name), vec![argument(text)])
}

/// Returns what a call means; `None` if it is a call of the language.
pub(super) fn meant(name: &str, called: &Function) -> Option<Expr> {
    if let Some((_, list)) = ROWS.iter().find(|(other, _)| *other == name) {
        let list = Expr::Function(Function { name: ident(list), ..called.clone() });
        return Some(call(ident("unnest"), vec![argument(list)]));
    }
    let plain = match name {
        "json_agg" | "jsonb_agg" => {
            let list = Function { name: ident("array_agg"), ..called.clone() };
            call(ident("array_to_json"), vec![argument(Expr::Function(list))])
        }
        "json_object_agg" | "jsonb_object_agg" => {
            let FunctionArguments::List(given) = &called.args else { return None };
            let [_, _] = given.args.as_slice() else { return None };
            let mut pairs = given.clone();
            pairs.args = vec![argument(call(ident("struct"), given.args.clone()))];
            let list =
                Function { name: ident("array_agg"), args: FunctionArguments::List(pairs), ..called.clone() };
            call(ident("json_object_of_pairs"), vec![argument(Expr::Function(list))])
        }
        "to_jsonb" => Expr::Function(Function { name: ident("to_json"), ..called.clone() }),
        "jsonb_build_object" => {
            Expr::Function(Function { name: ident("json_build_object"), ..called.clone() })
        }
        "jsonb_build_array" => Expr::Function(Function { name: ident("json_build_array"), ..called.clone() }),
        _ => return None,
    };
    let is_binary = name.contains("jsonb");
    Some(if is_binary { call(ident("jsonb"), vec![argument(plain)]) } else { plain })
}

/// Makes a list that is unnested of a function in FROM that gives rows. The column is called as PostgreSQL calls it, unless it is named.
pub(super) fn rows(table: &mut TableFactor) {
    let TableFactor::Table { name, alias, args: Some(given), with_ordinality, .. } = table else { return };
    let [part] = name.0.as_slice() else { return };
    let Some(word) = part.as_ident().map(|word| word.value.to_ascii_lowercase()) else { return };
    let Some((function, list)) = ROWS.iter().find(|(function, _)| *function == word) else { return };
    let column = if function.ends_with("keys") { *function } else { "value" };
    let mut alias = alias.take().unwrap_or_else(|| TableAlias {
        explicit: true,
        name: Ident::new(word.clone()),
        columns: Vec::new(),
        at: None,
    });
    if alias.columns.is_empty() {
        alias.columns = vec![TableAliasColumnDef { name: Ident::new(column), data_type: None }];
    }
    *table = TableFactor::UNNEST {
        alias: Some(alias),
        array_exprs: vec![call(ident(list), std::mem::take(&mut given.args))],
        with_offset: false,
        with_offset_alias: None,
        with_ordinality: *with_ordinality,
    };
}

fn argument(value: Expr) -> FunctionArg {
    FunctionArg::Unnamed(FunctionArgExpr::Expr(value))
}
