//! `CREATE PLACES` and `CREATE PROCESS`.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{LogicalPlan, Union};
use datafusion::sql::sqlparser::ast::{self, VisitorMut};
use tidemill_engine::{PlaceChoice, PlaceGroup, PlaceMember, StreamProcessPlan};

use super::{Planner, Reply, select_each};
use crate::logical::{ProcessMark, ProcessNode};
use crate::relations::named_relations::Relation;
use crate::relations::stream_process::{StreamProcess, StreamProcessMember, StreamProcessSet, call_text};
use crate::statement::{
    CreatePlaces, CreateProcess, Name, ParameterSet, PlaceName, PlaceStep, RelationKind, Statement,
};
use crate::text::TextError;
use crate::translate::{is_static, read_static};
use tidemill_trees::syntax::walk_mut;

/// The most processes in a set: each is a stage of every worker.
const PROCESSES_MAX: usize = 1024;

impl Planner {
    pub(super) fn create_places(
        &mut self,
        create: &CreatePlaces,
        statement: &Statement,
    ) -> Result<Reply, TextError> {
        let name = create.name.as_str();
        let failed = self.catalog.failed(RelationKind::Places, name).is_some();
        if failed || self.catalog.places.contains_key(name) {
            if create.if_not_exists {
                return Ok(Reply::Done(format!("'{name}' already exists")));
            }
            if !create.or_replace {
                let error = statement.error(create.name.span, format!("places '{name}' already exist"));
                return Err(error.with_hint("choose another name, or write CREATE OR REPLACE"));
            }
        }
        let member = |place: &PlaceName| match place {
            PlaceName::Number(number) => Ok(PlaceMember::Place(*number)),
            PlaceName::Group(name) => self.group(name, statement).map(PlaceMember::Group),
        };
        let members = create.members.iter().map(member).collect::<Result<_, _>>()?;
        self.catalog.places.insert(name.to_string(), PlaceGroup { name: name.to_string(), members });
        Ok(Reply::Done(format!("places {name} created")))
    }

    fn group(&self, name: &Name, statement: &Statement) -> Result<PlaceGroup, TextError> {
        if let Some(group) = self.catalog.places.get(name.as_str()) {
            return Ok(group.clone());
        }
        let error = statement.error(name.span, format!("there are no places '{name}'"));
        Err(match crate::closest(name.as_str(), self.catalog.places.keys().map(String::as_str)) {
            Some(meant) => error.with_hint(format!("did you mean {meant}?")),
            None => error.with_hint(format!("define them first: CREATE PLACES {name} (0, 1)")),
        })
    }

    pub(super) fn create_process(
        &mut self,
        create: &CreateProcess,
        statement: &Statement,
    ) -> Result<Reply, TextError> {
        if self.exists(&create.name, create.if_not_exists, create.or_replace, statement)? {
            return Ok(Reply::Done(format!("'{}' already exists", create.name)));
        }
        let places: Vec<PlaceChoice> =
            create.places.iter().map(|step| self.choice(step, statement)).collect::<Result<_, _>>()?;
        let (names, rows) = match &create.parameters {
            None => (&[][..], vec![Vec::new()]),
            Some((names, set)) => (names.as_slice(), self.parameters(names, set, statement)?),
        };
        let mut members: Vec<StreamProcessMember> = Vec::new();
        for parameters in rows {
            let name = call_text(create.name.as_str(), &parameters);
            let plan = StreamProcessPlan { name, places: places.clone(), required: create.required };
            let query = with_parameters(&create.query, names, &parameters);
            members.push(self.member(plan, parameters, &query, statement)?);
        }
        let name = create.name.value.clone();
        let plan = united(&members).map_err(|error| self.text_error(&error, statement))?;
        let said = match members.len() {
            1 => format!("process {name} created"),
            processes => format!("{processes} processes {name} created"),
        };
        let set = StreamProcessSet { name: name.clone(), plan, members };
        self.catalog.relations.add(&name, Relation::Process(Arc::new(set)));
        Ok(Reply::Done(said))
    }

    fn choice(&self, step: &PlaceStep, statement: &Statement) -> Result<PlaceChoice, TextError> {
        Ok(match step {
            PlaceStep::At(PlaceName::Number(number)) => PlaceChoice::Place(*number),
            PlaceStep::At(PlaceName::Group(name)) => PlaceChoice::AnyOf(self.group(name, statement)?),
            PlaceStep::NextOf(name) => PlaceChoice::NextOf(self.group(name, statement)?),
            PlaceStep::EachOf(name) => PlaceChoice::EachOf(self.group(name, statement)?),
        })
    }

    fn member(
        &self,
        plan: StreamProcessPlan,
        parameters: Vec<ScalarValue>,
        query: &ast::Query,
        statement: &Statement,
    ) -> Result<StreamProcessMember, TextError> {
        // Optimised once, so that errors are found here and not where it is used.
        let (input, _) = self.plan_as_written(query, statement)?;
        let definition = Arc::new(StreamProcess { plan });
        let plan = ProcessNode::plan(ProcessMark(Arc::clone(&definition)), input);
        Ok(StreamProcessMember { parameters, definition, plan })
    }

    /// The parameters of each process of a set.
    fn parameters(
        &self,
        names: &[Name],
        set: &ParameterSet,
        statement: &Statement,
    ) -> Result<Vec<Vec<ScalarValue>>, TextError> {
        let place = names[0].span;
        let query = match set {
            ParameterSet::Query(query) => query.as_ref().clone(),
            ParameterSet::Values(values) => query_of(values, statement)?,
        };
        let plan = self.plan(&query, statement)?;
        if !is_static(&plan) {
            let error =
                statement.error(place, "the set of parameters reads a stream, so it is never complete");
            return Err(error.with_hint("declare what it reads with CREATE TABLE"));
        }
        let rows = read_static(&plan, &self.settings.memory_of_reader())
            .map_err(|error| self.text_error(&error, statement))?;
        if rows.num_columns() != names.len() {
            let (found, wanted) = (rows.num_columns(), names.len());
            let message = format!("the set has {found} columns for {wanted} parameters");
            return Err(statement.error(place, message));
        }
        if rows.num_rows() == 0 || rows.num_rows() > PROCESSES_MAX {
            let count = rows.num_rows();
            let message =
                format!("a set has 1 to {PROCESSES_MAX} processes, but the parameters give {count}");
            return Err(statement.error(place, message));
        }
        let parameters = (0..rows.num_rows()).map(|row| parameters_at(&rows, row));
        parameters.collect::<Result<_, _>>().map_err(|message| statement.error(place, message))
    }
}

fn parameters_at(rows: &RecordBatch, row: usize) -> Result<Vec<ScalarValue>, String> {
    let value = |column: &ArrayRef| {
        let value = ScalarValue::try_from_array(column, row).map_err(|error| error.to_string())?;
        match literal(&value) {
            Some(_) => Ok(value),
            None => Err(format!("a parameter must be a number, a string or a boolean, found {value}")),
        }
    };
    rows.columns().iter().map(value).collect()
}

/// The query of each value; values in parentheses are an array.
fn query_of(values: &ast::Expr, statement: &Statement) -> Result<ast::Query, TextError> {
    let listed = |elem: Vec<ast::Expr>| ast::Expr::Array(ast::Array { elem, named: false });
    let array = match values {
        ast::Expr::Tuple(values) => listed(values.clone()),
        ast::Expr::Nested(value) => listed(vec![value.as_ref().clone()]),
        other => other.clone(),
    };
    select_each(array, statement)
}

/// The query with the values in place of the parameters' names.
fn with_parameters(query: &ast::Query, names: &[Name], values: &[ScalarValue]) -> ast::Query {
    let mut query = query.clone();
    let _ = walk_mut(&mut query, &mut Parameters { names, values });
    query
}

/// Substitutes values for names.
struct Parameters<'a> {
    names: &'a [Name],
    values: &'a [ScalarValue],
}

impl Parameters<'_> {
    fn value_of(&self, expression: &ast::Expr) -> Option<ast::Expr> {
        let ast::Expr::Identifier(ident) = expression else { return None };
        let ident = match ident.quote_style {
            None => ident.value.to_ascii_lowercase(),
            Some(_) => ident.value.clone(),
        };
        let mut pairs = self.names.iter().zip(self.values);
        let (_, value) = pairs.find(|(name, _)| name.as_str() == ident)?;
        literal(value).map(ast::Expr::value)
    }
}

impl VisitorMut for Parameters<'_> {
    type Break = ();

    /// A column that is a parameter keeps its name.
    fn pre_visit_select(&mut self, select: &mut ast::Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let ast::SelectItem::UnnamedExpr(ast::Expr::Identifier(ident)) = item
                && let Some(expr) = self.value_of(&ast::Expr::Identifier(ident.clone()))
            {
                *item = ast::SelectItem::ExprWithAlias { expr, alias: ident.clone() };
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &mut ast::Expr) -> ControlFlow<()> {
        if let Some(value) = self.value_of(expression) {
            *expression = value;
        }
        ControlFlow::Continue(())
    }
}

/// A value as written in a query.
fn literal(value: &ScalarValue) -> Option<ast::Value> {
    match value {
        value if value.is_null() => None,
        ScalarValue::Boolean(Some(value)) => Some(ast::Value::Boolean(*value)),
        ScalarValue::Utf8(Some(text))
        | ScalarValue::LargeUtf8(Some(text))
        | ScalarValue::Utf8View(Some(text)) => Some(ast::Value::SingleQuotedString(text.clone())),
        value if value.data_type().is_integer() => Some(ast::Value::Number(value.to_string(), false)),
        ScalarValue::Float64(Some(value)) => Some(ast::Value::Number(format!("{value:e}"), false)),
        _ => None,
    }
}

/// The rows of all processes of a set.
fn united(members: &[StreamProcessMember]) -> datafusion::common::Result<LogicalPlan> {
    match members {
        [one] => Ok(one.plan.clone()),
        _ => {
            let plans = members.iter().map(|member| Arc::new(member.plan.clone())).collect();
            Ok(LogicalPlan::Union(Union::try_new_with_loose_types(plans)?))
        }
    }
}
