//! Puts the bodies of functions in the place of their calls.

use std::fmt::Display;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::sql::sqlparser::ast::{
    DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName,
    PipeOperator, Query, Select, SelectItem, SetExpr, Spanned, TableAlias, TableFactor, TableFunctionArgs,
    UnaryOperator, VisitorMut,
};
use datafusion::sql::sqlparser::tokenizer::Span as TokenSpan;

use super::loaded::is_in_plans;
use super::size::{levels, nodes};
use super::unused_names::UnusedNames;
use super::values::{as_written, parameter, typed, with_values};
use super::{DefinedFunction, DefinedFunctions, Loaded, Meaning, NODES_MAX};
use crate::refusal::refuse_at;
use crate::statement::{MAX_DEPTH, StatementKind, TABLE_FUNCTIONS, called, calls_in, parse};
use tidemill_trees::syntax::{Node, walk_expressions_mut, walk_mut};

/// A tree without calls of defined functions, and the calls in FROM that names in it stand for.
pub(crate) struct Expanded<T> {
    pub tree: T,
    pub calls: Vec<TableCall>,
}

/// A call in FROM.
pub(crate) struct TableCall {
    /// The name that stands for it.
    pub name: String,
    pub function: Arc<DefinedFunction>,
    /// The body with the values of the call.
    pub query: Query,
    /// Where the call is.
    pub place: TokenSpan,
}

/// Replaces the calls of a tree.
pub(crate) struct Expansion<'a> {
    functions: &'a DefinedFunctions,
    calls: Vec<TableCall>,
    names: UnusedNames,
    added_nodes: usize,
}

impl<'a> Expansion<'a> {
    /// Replaces all calls in what a user wrote; `None` if there are none.
    ///
    /// # Errors
    /// If a call cannot be replaced, or calls code by the name that only plans have: what is dropped could still be called.
    pub fn of<T: Node + Clone + Display>(
        tree: &T,
        functions: &'a DefinedFunctions,
    ) -> Result<Option<Expanded<T>>> {
        let calls = calls_in(tree);
        let is_hidden = |name: &&String| is_in_plans(name) && !functions.contains_key(*name);
        if let Some(name) = calls.iter().find(is_hidden) {
            return plan_err!("Invalid function '{name}'");
        }
        if !calls.iter().any(|name| functions.contains_key(name)) {
            return Ok(None);
        }
        let mut tree = tree.clone();
        let names = UnusedNames::beside(&tree);
        let mut expansion = Expansion { functions, calls: Vec::new(), names, added_nodes: 0 };
        if let ControlFlow::Break(error) = walk_mut(&mut tree, &mut expansion) {
            return Err(*error);
        }
        too_deep(&tree, "the statement", TokenSpan::empty())?;
        Ok(Some(Expanded { tree, calls: expansion.calls }))
    }

    fn value(&mut self, call: &Function, function: &DefinedFunction, body: &Expr) -> Result<Expr> {
        let (name, place) = (&function.name, call.name.span());
        let values = plain_values(call, function)?;
        let sizes: Vec<usize> = values.iter().map(nodes).collect();
        let mut counted = 0_usize;
        each_parameter(body.clone(), &function.parameters, |index| counted += sizes[index]);
        self.grow(function, function.nodes + counted, place)?;
        let mut value = body.clone();
        with_values(&mut value, &function.parameters, &values);
        too_deep(&value, name, place)?;
        Ok(value)
    }

    fn rows(
        &mut self,
        function: &Arc<DefinedFunction>,
        query: &Query,
        args: &[FunctionArg],
        place: TokenSpan,
    ) -> Result<String> {
        let values = cast_values(function, args, place)?;
        if let Some(given) = values.iter().find(|value| !is_constant(value)) {
            let given = without_cast(given);
            let message = format!("{}() takes only constants in FROM, not `{given}`", function.name);
            return Err(refuse_at(place, message, "write the value, or join with the rows of the function"));
        }
        self.grow(function, function.nodes, place)?;
        let values: Vec<Expr> = values.into_iter().map(as_written).collect();
        let mut query = query.clone();
        with_values(&mut query, &function.parameters, &values);
        let name = self.names.next();
        self.calls.push(TableCall { name: name.clone(), function: Arc::clone(function), query, place });
        Ok(name)
    }

    /// Counts what a call adds, before it is added.
    fn grow(&mut self, function: &DefinedFunction, added: usize, place: TokenSpan) -> Result<()> {
        self.added_nodes = self.added_nodes.saturating_add(added);
        if self.added_nodes <= NODES_MAX {
            return Ok(());
        }
        let message = format!("with {}, the functions add more than {NODES_MAX} nodes", function.name);
        Err(refuse_at(place, message, "compute a part in a view, and call the functions less often"))
    }

    fn relation(&mut self, relation: &mut TableFactor) -> Result<()> {
        let place = relation.span();
        let (name, args, alias) = match relation {
            TableFactor::Table { name, args: Some(args), alias, .. } => (name, &args.args, alias),
            TableFactor::Function { name, args, alias, .. } => (name, &*args, alias),
            _ => return Ok(()),
        };
        let place = if place == TokenSpan::empty() { name.span() } else { place };
        let Some(function) = called(name).and_then(|name| self.functions.get(&name)) else { return Ok(()) };
        let query = match &function.result {
            Meaning::Rows(query) => Some(query),
            Meaning::Loaded(Loaded::Operator(_)) => None,
            Meaning::Value(_) | Meaning::Loaded(_) => return Err(no_rows(function, place)),
        };
        let alias = alias.clone().unwrap_or_else(|| TableAlias {
            explicit: true,
            name: Ident::with_quote('"', function.name.as_str()),
            columns: Vec::new(),
            at: None,
        });
        let Some(query) = query else {
            name_operator(relation, function, alias);
            return Ok(());
        };
        let named = self.rows(function, query, args, place)?;
        *relation = unnamed_table(vec![Ident::with_quote('"', named)].into(), None);
        if let TableFactor::Table { alias: its_alias, .. } = relation {
            *its_alias = Some(alias);
        }
        Ok(())
    }
}

impl Expansion<'_> {
    /// Columns have the name of the call, not of what stands in its place.
    fn name_columns(&self, items: &mut [SelectItem]) {
        for item in items {
            if let SelectItem::UnnamedExpr(expr) = item
                && calls_in(expr).iter().any(|name| self.functions.contains_key(name))
            {
                let alias = Ident::with_quote('"', expr.to_string());
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
            }
        }
    }

    /// Writes `TABLE(f(1))` as `(SELECT * FROM f(1))`. Where code is called, another function has to see that:
    /// `mergestream(f(...))`.
    fn tables(&self, args: &mut [FunctionArg], of_table: bool) -> ControlFlow<Box<DataFusionError>> {
        for arg in args {
            let (FunctionArg::Unnamed(FunctionArgExpr::Expr(value))
            | FunctionArg::Named { arg: FunctionArgExpr::Expr(value), .. }) = arg
            else {
                continue;
            };
            if let Expr::Function(call) = value
                && let Some(function) = called(&call.name).and_then(|name| self.functions.get(&name))
                && gives_rows(function)
                && let FunctionArguments::List(list) = &mut call.args
            {
                if let Meaning::Loaded(loaded) = &function.result
                    && !of_table
                {
                    call.name = called_in_plans(&call.name, loaded.name());
                    self.tables(&mut list.args, false)?;
                    continue;
                }
                let relation = unnamed_table(call.name.clone(), Some(list.args.clone()));
                match all_rows(relation) {
                    Ok(query) => *value = Expr::Subquery(Box::new(query)),
                    Err(error) => return ControlFlow::Break(Box::new(error)),
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// Whether the arguments of a function can be rows: `TABLE(...)`, or a function of the language that is called in FROM.
fn takes_rows(call: &Function) -> bool {
    let name = called(&call.name).unwrap_or_default();
    name == "table" || TABLE_FUNCTIONS.contains(&name.as_str())
}

impl VisitorMut for Expansion<'_> {
    type Break = Box<DataFusionError>;

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<Self::Break> {
        if let Expr::Function(call) = expression
            && takes_rows(call)
            && let FunctionArguments::List(list) = &mut call.args
        {
            if called(&call.name).as_deref() == Some("table")
                && let [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(of)))] =
                    list.args.as_slice()
                && let Some(function) = called(&of.name).and_then(|name| self.functions.get(&name))
                && !gives_rows(function)
            {
                return ControlFlow::Break(Box::new(no_rows(function, of.name.span())));
            }
            return self.tables(&mut list.args, called(&call.name).as_deref() == Some("table"));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, relation: &mut TableFactor) -> ControlFlow<Self::Break> {
        match relation {
            TableFactor::Table { args: Some(args), .. } => self.tables(&mut args.args, false),
            TableFactor::Function { args, .. } => self.tables(args, false),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        self.name_columns(&mut select.projection);
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        for pipe in &mut query.pipe_operators {
            if let PipeOperator::Select { exprs } | PipeOperator::Extend { exprs } = pipe {
                self.name_columns(exprs);
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<Self::Break> {
        let Expr::Function(call) = expression else { return ControlFlow::Continue(()) };
        let functions = self.functions;
        let Some(function) = called(&call.name).and_then(|name| functions.get(&name)) else {
            return ControlFlow::Continue(());
        };
        let value = match &function.result {
            Meaning::Value(body) => self.value(call, function, body),
            Meaning::Loaded(Loaded::Scalar(loaded)) => {
                plain_values(call, function).map(|values| loaded_call(call, values, loaded.name()))
            }
            Meaning::Loaded(Loaded::Aggregate(loaded)) => {
                values_of(call, function).map(|values| loaded_call(call, values, loaded.name()))
            }
            Meaning::Rows(_) | Meaning::Loaded(Loaded::Operator(_)) => {
                let message = format!("{}() is a function of rows, not of values", function.name);
                Err(refuse_at(call.name.span(), message, "call it in FROM"))
            }
        };
        match value {
            Ok(value) => *expression = value,
            Err(error) => return ControlFlow::Break(Box::new(error)),
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, relation: &mut TableFactor) -> ControlFlow<Self::Break> {
        match self.relation(relation) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(Box::new(error)),
        }
    }
}

/// A relation, or a call of a function of rows.
fn unnamed_table(name: ObjectName, args: Option<Vec<FunctionArg>>) -> TableFactor {
    TableFactor::Table {
        name,
        alias: None,
        args: args.map(|args| TableFunctionArgs { args, settings: None }),
        with_hints: Vec::new(),
        version: None,
        with_ordinality: false,
        partitions: Vec::new(),
        json_path: None,
        sample: None,
        index_hints: Vec::new(),
    }
}

/// `SELECT * FROM relation`
fn all_rows(relation: TableFactor) -> Result<Query> {
    let parsed = parse("SELECT * FROM relation", "template");
    let query = parsed.ok().and_then(|mut statements| match statements.pop()?.kind {
        StatementKind::Query(query, _) => Some(*query),
        _ => None,
    });
    let mut query = query.ok_or_else(|| DataFusionError::Internal("a template is not a query".to_owned()))?;
    if let SetExpr::Select(select) = &mut *query.body
        && let Some(from) = select.from.first_mut()
    {
        from.relation = relation;
    }
    Ok(query)
}

/// The values of a call that has nothing but its arguments.
fn plain_values(call: &Function, function: &DefinedFunction) -> Result<Vec<Expr>> {
    let place = call.name.span();
    let FunctionArguments::List(list) = &call.args else { return Err(not_plain(&function.name, place)) };
    let is_plain = call.over.is_none()
        && call.filter.is_none()
        && call.null_treatment.is_none()
        && call.within_group.is_empty()
        && list.duplicate_treatment.is_none()
        && list.clauses.is_empty()
        && matches!(call.parameters, FunctionArguments::None);
    if is_plain { cast_values(function, &list.args, place) } else { Err(not_plain(&function.name, place)) }
}

/// The values of a call of an aggregate, which may also have FILTER and the like.
fn values_of(call: &Function, function: &DefinedFunction) -> Result<Vec<Expr>> {
    let place = call.name.span();
    match &call.args {
        FunctionArguments::List(list) => cast_values(function, &list.args, place),
        _ => Err(not_plain(&function.name, place)),
    }
}

/// The call of the code, by its name in plans.
fn loaded_call(call: &Function, values: Vec<Expr>, name: &str) -> Expr {
    let mut loaded = call.clone();
    loaded.name = called_in_plans(&call.name, name);
    if let FunctionArguments::List(list) = &mut loaded.args {
        list.args =
            values.into_iter().map(|value| FunctionArg::Unnamed(FunctionArgExpr::Expr(value))).collect();
    }
    Expr::Function(loaded)
}

/// Names the code in place of the function.
fn name_operator(relation: &mut TableFactor, function: &DefinedFunction, alias: TableAlias) {
    let Meaning::Loaded(loaded) = &function.result else { return };
    let (TableFactor::Table { name, alias: its_alias, .. }
    | TableFactor::Function { name, alias: its_alias, .. }) = relation
    else {
        return;
    };
    (*name, *its_alias) = (called_in_plans(name, loaded.name()), Some(alias));
}

/// A name in plans in the place of the one that was written.
fn called_in_plans(written: &ObjectName, name: &str) -> ObjectName {
    vec![Ident { span: written.span(), ..Ident::with_quote('"', name) }].into()
}

/// Whether a function is called in FROM.
fn gives_rows(function: &DefinedFunction) -> bool {
    matches!(function.result, Meaning::Rows(_) | Meaning::Loaded(Loaded::Operator(_)))
}

fn no_rows(function: &DefinedFunction, place: TokenSpan) -> DataFusionError {
    let message = format!("{}() is a function of values, not of rows", function.name);
    refuse_at(place, message, "call it in SELECT")
}

fn not_plain(name: &str, place: TokenSpan) -> DataFusionError {
    let message = format!("{name} is computed for each row, and takes only its arguments");
    refuse_at(place, message, "remove DISTINCT, FILTER, OVER and the like from the call")
}

fn too_deep(tree: &impl Node, name: &str, place: TokenSpan) -> Result<()> {
    if levels(tree) <= MAX_DEPTH {
        return Ok(());
    }
    let message = format!("with the functions that it calls, {name} has more than {MAX_DEPTH} levels");
    Err(refuse_at(place, message, "compute a part in a view"))
}

/// The arguments of a call, cast to the types of the parameters.
fn cast_values(function: &DefinedFunction, args: &[FunctionArg], place: TokenSpan) -> Result<Vec<Expr>> {
    let (wanted, found) = (function.parameters.len(), args.len());
    if wanted != found {
        let names: Vec<String> =
            function.parameters.iter().map(|(name, kind)| format!("{name} {kind}")).collect();
        let arguments = if wanted == 1 { "argument" } else { "arguments" };
        let message = format!("{} takes {wanted} {arguments}, found {found}", function.name);
        return Err(refuse_at(place, message, &format!("write {}({})", function.name, names.join(", "))));
    }
    let value = |(arg, (_, data_type)): (&FunctionArg, &(String, DataType))| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => {
            Ok(typed(Expr::Nested(Box::new(value.clone())), data_type))
        }
        _ => {
            let message = format!("{} takes values in the order of its parameters", function.name);
            Err(refuse_at(place, message, "write the values alone, without names and `*`"))
        }
    };
    args.iter().zip(&function.parameters).map(value).collect()
}

/// The argument within the cast to its parameter's type.
fn without_cast(value: &Expr) -> &Expr {
    match value {
        Expr::Cast { expr, .. } | Expr::Nested(expr) => without_cast(expr),
        other => other,
    }
}

/// Whether a value is written down, or is a parameter of a statement.
fn is_constant(value: &Expr) -> bool {
    match value {
        Expr::Value(_) | Expr::TypedString(_) => true,
        Expr::Cast { expr, .. } | Expr::Nested(expr) => is_constant(expr),
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => is_constant(expr),
        Expr::BinaryOp { left, right, .. } => is_constant(left) && is_constant(right),
        Expr::Interval(interval) => is_constant(&interval.value),
        _ => false,
    }
}

/// Tells of each place of a parameter.
fn each_parameter(mut body: Expr, parameters: &[(String, DataType)], mut tell: impl FnMut(usize)) {
    let _: ControlFlow<()> = walk_expressions_mut(&mut body, |expression| {
        parameter(expression, parameters).into_iter().for_each(&mut tell);
        ControlFlow::Continue(())
    });
}
