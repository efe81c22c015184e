//! Functions of JSON that are others of ours: `jsonb_agg(x)` is `jsonb(json_list(array_agg(to_json(x))))`, and `FROM jsonb_array_elements(x)` is
//! `FROM unnest(json_items(x))`.

use datafusion::sql::sqlparser::ast::{
    DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Parens, TableAlias,
    TableAliasColumnDef, TableFactor, Value,
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
            let mut list = Function { name: ident("array_agg"), ..called.clone() };
            let FunctionArguments::List(given) = &mut list.args else { return None };
            let [FunctionArg::Unnamed(FunctionArgExpr::Expr(_))] = given.args.as_slice() else { return None };
            // Values are told apart before they are written.
            let function = if given.duplicate_treatment.is_some() {
                "array_to_json"
            } else {
                given.args = vec![argument(call(ident("to_json"), std::mem::take(&mut given.args)))];
                "json_list"
            };
            call(ident(function), vec![argument(Expr::Function(list))])
        }
        "json_object_agg" | "jsonb_object_agg" => {
            let FunctionArguments::List(given) = &called.args else { return None };
            let [key, value] = given.args.as_slice() else { return None };
            let mut pairs = given.clone();
            let value = argument(call(ident("to_json"), vec![value.clone()]));
            pairs.args = vec![argument(call(ident("struct"), vec![key.clone(), value]))];
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

/// Makes JSON of the texts and NULLs in VALUES that stand in a column with JSON.
pub(super) fn values(rows: &mut [Parens<Vec<Expr>>]) {
    let columns = rows.iter().map(|row| row.len()).min().unwrap_or_default();
    for column in 0..columns {
        let Some(function) = rows.iter().find_map(|row| function_of_json(&row[column])) else { continue };
        for cell in rows.iter_mut().map(|row| &mut row[column]) {
            if let Expr::Value(value) = cell
                && matches!(value.value, Value::Null | Value::SingleQuotedString(_))
            {
                *cell = call(ident(function), vec![argument(Expr::Value(value.clone()))]);
            }
        }
    }
}

/// The function that makes what an expression gives, if it is known to be JSON.
fn function_of_json(cell: &Expr) -> Option<&'static str> {
    let Expr::Function(called) = cell else { return None };
    let name = called.name.0.first()?.as_ident()?.value.to_ascii_lowercase();
    let is = |words: &[&str]| words.contains(&name.as_str());
    if is(&["json", "to_json", "json_build_object", "json_build_array", "row_to_json", "array_to_json"]) {
        Some("json")
    } else if is(&["jsonb", "jsonb_set", "jsonb_insert", "jsonb_strip_nulls", "jsonb_extract_path"]) {
        Some("jsonb")
    } else {
        None
    }
}

/// Functions that give rows of a key and a value, and the functions that give the values as a list.
const PAIRS: [(&str, &str); 4] = [
    ("json_each", "json_values"),
    ("json_each_text", "json_value_texts"),
    ("jsonb_each", "json_values"),
    ("jsonb_each_text", "json_value_texts"),
];

/// Makes a list that is unnested of a function in FROM that gives rows. The columns are called as PostgreSQL calls them, unless they are named.
pub(super) fn rows(table: &mut TableFactor) {
    let TableFactor::Table { name, alias, args: Some(given), with_ordinality, .. } = table else { return };
    let [part] = name.0.as_slice() else { return };
    let Some(word) = part.as_ident().map(|word| word.value.to_ascii_lowercase()) else { return };
    let is_word = |(function, _): &&(&str, &str)| *function == word;
    let (lists, columns) = if let Some((function, list)) = ROWS.iter().find(is_word) {
        (vec![*list], vec![if function.ends_with("keys") { *function } else { "value" }])
    } else if let Some((_, values)) = PAIRS.iter().find(is_word) {
        (vec!["json_keys", *values], vec!["key", "value"])
    } else {
        return;
    };
    let mut alias = alias.take().unwrap_or_else(|| TableAlias {
        explicit: true,
        name: Ident::new(word.clone()),
        columns: Vec::new(),
        at: None,
    });
    let unnamed = columns.iter().skip(alias.columns.len());
    alias
        .columns
        .extend(unnamed.map(|name| TableAliasColumnDef { name: Ident::new(*name), data_type: None }));
    *table = TableFactor::UNNEST {
        alias: Some(alias),
        array_exprs: lists.into_iter().map(|list| call(ident(list), given.args.clone())).collect(),
        with_offset: false,
        with_offset_alias: None,
        with_ordinality: *with_ordinality,
    };
}

fn argument(value: Expr) -> FunctionArg {
    FunctionArg::Unnamed(FunctionArgExpr::Expr(value))
}
