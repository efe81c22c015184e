//! `CREATE FUNCTION`.

use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::common::DFSchema;
use datafusion::sql::sqlparser::ast;

use super::select::template;
use super::{Planner, Reply};
use crate::defined_functions::{
    DefinedFunction, DefinedFunctions, Expansion, LEVELS_MAX, Loaded, Meaning, NODES_MAX, Wrong, check,
    check_keys, nodes, rows_query, tried_with, typed, with_samples,
};
use crate::statement::{
    CreateFunction, FunctionBody, FunctionResult, RelationKind, Statement, TABLE_FUNCTIONS, parse,
};
use crate::text::{Problem, TextError};

impl Planner {
    pub(super) fn create_function(
        &mut self,
        create: &CreateFunction,
        statement: &Statement,
    ) -> Result<Reply, TextError> {
        let name = create.name.as_str();
        let failed = self.catalog.failed(RelationKind::Function, name).is_some();
        if failed || self.catalog.defined.contains_key(name) {
            if create.if_not_exists {
                return Ok(Reply::Done(format!("'{name}' already exists")));
            }
            if !create.or_replace {
                let error = statement.error(create.name.span, format!("function '{name}' already exists"));
                let hint = "choose another name, or write CREATE OR REPLACE";
                return Err(error.of(Problem::Exists).with_hint(hint));
            }
        }
        self.check_name(create, statement)?;
        let uses = self.uses(create, statement)?;
        let parameters: Vec<(String, ast::DataType)> = create
            .parameters
            .iter()
            .map(|parameter| (parameter.name.value.clone(), parameter.data_type.clone()))
            .collect();
        let (result, own_nodes) = match (&create.body, &create.unplaced, &create.result) {
            (
                FunctionBody::Expression(body),
                FunctionBody::Expression(unplaced),
                FunctionResult::Value(result),
            ) => {
                self.check_value(create, body, &result.0, statement)?;
                let value = self.expanded(&typed((**unplaced).clone(), &result.0), statement)?;
                let nodes = nodes(&value);
                (Meaning::Value(Box::new(value)), nodes)
            }
            (FunctionBody::Query(body), FunctionBody::Query(unplaced), _) => {
                self.check_rows(create, body, &parameters, statement)?;
                let named = template("SELECT * FROM placeholder", statement)?;
                let query = rows_query(named, (**unplaced).clone(), name, &create.result);
                let calls = statement.calls();
                let called = calls.iter().filter_map(|call| uses.get(call)).map(|function| function.nodes);
                let nodes = nodes(&query) + called.sum::<usize>();
                (Meaning::Rows(Box::new(query)), nodes)
            }
            (FunctionBody::Code(code), ..) => {
                let function = self.loaded(create, code, statement)?;
                (Meaning::Loaded(self.load(function)), 1)
            }
            _ => return Err(statement.error(statement.span, "the body does not fit the result")),
        };
        let levels = uses.values().map(|used| used.levels + 1).max().unwrap_or_default();
        let function = DefinedFunction {
            name: name.to_owned(),
            definition: Arc::new(statement.clone()),
            parameters,
            result,
            uses,
            nodes: own_nodes,
            levels,
        };
        check_size(&function, create, statement)?;
        self.catalog.defined.insert(name.to_owned(), Arc::new(function));
        Ok(Reply::Done(format!("function {name} created")))
    }

    /// Refuses a name that means something else where functions are called.
    fn check_name(&self, create: &CreateFunction, statement: &Statement) -> Result<(), TextError> {
        let name = create.name.as_str();
        let catalog = &self.catalog;
        let functions = &catalog.functions;
        let is_function = functions.scalar.contains_key(name)
            || functions.aggregate.contains_key(name)
            || functions.window.contains_key(name)
            || catalog.registry.generators.contains_key(name)
            || catalog.registry.operators.contains_key(name)
            || TABLE_FUNCTIONS.contains(&name)
            || ["unnest", "unnest_outer"].contains(&name);
        let is_relation = catalog.relations.get(name).is_some()
            || catalog.sinks.contains_key(name)
            || catalog.failed(RelationKind::View, name).is_some();
        let taken = if is_relation {
            Some(format!("'{name}' already exists and is not a function"))
        } else if is_function {
            Some(format!("'{name}' is a function of the language"))
        } else if !is_called(create) {
            Some(format!("`{name}` is a word of the language"))
        } else {
            None
        };
        match taken {
            None => Ok(()),
            Some(message) => {
                let error = statement.error(create.name.span, message).of(Problem::Exists);
                Err(error.with_hint("choose another name"))
            }
        }
    }

    /// The functions that a function calls; none of them may lead back to it.
    fn uses(&self, create: &CreateFunction, statement: &Statement) -> Result<DefinedFunctions, TextError> {
        let name = create.name.as_str();
        let mut uses = DefinedFunctions::new();
        for call in statement.calls() {
            let path = match self.catalog.defined.get(&call) {
                _ if call == name => Some(vec![call]),
                None => None,
                Some(used) => {
                    let path = used.path_to(name);
                    uses.insert(call, Arc::clone(used));
                    path
                }
            };
            if let Some(path) = path {
                let message = format!("function {name} calls itself: {name} -> {}", path.join(" -> "));
                let error = statement.error(create.name.span, message);
                return Err(
                    error.with_hint("a function cannot be recursive; write WITH RECURSIVE for a table")
                );
            }
        }
        Ok(uses)
    }

    /// Plans the expression over columns of the parameters' types.
    fn check_value(
        &self,
        create: &CreateFunction,
        body: &ast::Expr,
        result: &ast::DataType,
        statement: &Statement,
    ) -> Result<(), TextError> {
        let catalog = &self.catalog;
        let is_loaded_aggregate = |name: &str| {
            let loaded = catalog.defined.get(name).map(|function| &function.result);
            matches!(loaded, Some(Meaning::Loaded(Loaded::Aggregate(_))))
        };
        let is_aggregate =
            |name: &str| catalog.functions.aggregate.contains_key(name) || is_loaded_aggregate(name);
        check(body, &create.parameters, is_aggregate).map_err(|wrong| refused(&wrong, create, statement))?;
        self.with_provider(|provider| {
            let field = |parameter: &crate::statement::TypedName| {
                let data_type = provider.data_type(&parameter.data_type)?;
                Ok(Field::new(parameter.name.as_str(), data_type, true))
            };
            let fields: datafusion::common::Result<Vec<Field>> =
                create.parameters.iter().map(field).collect();
            let planned = fields
                .and_then(|fields| DFSchema::try_from(Schema::new(fields)))
                .and_then(|schema| provider.expression(&typed(body.clone(), result), &schema));
            planned.map(drop).map_err(|error| provider.text_error(&error, statement))
        })
    }

    /// Plans the query with some values.
    fn check_rows(
        &self,
        create: &CreateFunction,
        body: &ast::Query,
        parameters: &[(String, ast::DataType)],
        statement: &Statement,
    ) -> Result<(), TextError> {
        let FunctionResult::Rows(columns) = &create.result else { return Ok(()) };
        check_keys(body, &create.parameters).map_err(|wrong| refused(&wrong, create, statement))?;
        let planned = |query: &ast::Query| {
            self.with_provider(|provider| {
                let planned = provider.plan(&with_samples(query, parameters));
                planned.map_err(|error| {
                    let error = provider.text_error(&error, statement);
                    let is_of_values = !parameters.is_empty() && !is_of_names(error.problem);
                    let tried = is_of_values.then(|| tried_with(parameters));
                    let hint = error.hint.clone().or(tried);
                    error.with_optional_hint(hint)
                })
            })
        };
        let found = planned(body)?.0.schema().fields().len();
        if found != columns.len() {
            let message =
                format!("the columns are {found} in the query and {} in TABLE (...)", columns.len());
            return Err(statement
                .error(create.name.span, message)
                .with_hint("declare each column of the query"));
        }
        let named = template("SELECT * FROM placeholder", statement)?;
        planned(&rows_query(named, body.clone(), create.name.as_str(), &create.result)).map(drop)
    }

    /// An expression without calls of functions that are defined.
    fn expanded(&self, expression: &ast::Expr, statement: &Statement) -> Result<ast::Expr, TextError> {
        let expanded = Expansion::of(expression, &self.catalog.defined);
        match expanded.map_err(|error| self.text_error(&error, statement))? {
            Some(expanded) => Ok(expanded.tree),
            None => Ok(expression.clone()),
        }
    }
}

/// Whether an error would be the same with other values of the parameters.
fn is_of_names(problem: Problem) -> bool {
    matches!(problem, Problem::UnknownRelation | Problem::UnknownColumn | Problem::UnknownFunction)
}

fn refused(wrong: &Wrong, create: &CreateFunction, statement: &Statement) -> TextError {
    let place = statement.script().span_of_tokens(wrong.place).unwrap_or(create.name.span);
    statement.error(place, wrong.message.clone()).with_hint(wrong.hint)
}

/// Whether a call of this name is a call, and no syntax of its own.
fn is_called(create: &CreateFunction) -> bool {
    let name = &create.name;
    let written = match name.quote {
        None => name.value.clone(),
        Some(_) => format!("\"{}\"", name.value.replace('"', "\"\"")),
    };
    let arguments = vec!["NULL"; create.parameters.len()].join(", ");
    let call = match create.result {
        FunctionResult::Value(_) => format!("SELECT {written}({arguments})"),
        FunctionResult::Rows(_) => format!("SELECT * FROM {written}({arguments})"),
    };
    parse(&call, "call")
        .is_ok_and(|read| read.first().is_some_and(|statement| statement.calls() == [name.as_str()]))
}

fn check_size(
    function: &DefinedFunction,
    create: &CreateFunction,
    statement: &Statement,
) -> Result<(), TextError> {
    let message = if function.nodes > NODES_MAX {
        format!("with the functions that it calls, {} has more than {NODES_MAX} nodes", function.name)
    } else if function.levels > LEVELS_MAX {
        format!("more than {LEVELS_MAX} functions call each other in a row below {}", function.name)
    } else {
        return Ok(());
    };
    Err(statement.error(create.name.span, message).with_hint("compute a part in a view"))
}
