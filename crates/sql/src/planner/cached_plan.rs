//! Queries that are planned once, and answered any number of times with other values of their parameters (decision 0105).

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::sqlparser::ast;
use tidemill_engine::Cut;

use super::deep_plans::{with_deep_stack, with_stack_for};
use super::show::reads_text;
use super::signature::shown_columns;
use super::{Planner, Reply};
use crate::expressions::compiled::Compiled;
use crate::logical::{Provider, fold};
use crate::planning_limits::within;
use crate::statement::{Parameter, ParameterType, Statement, StatementKind, number};
use crate::store::same_versions_of;
use crate::text::TextError;
use crate::translate::{is_static, read_as_tables, read_scalar_subqueries};
use tidemill_trees::nodes::{PlanTree, Tree};

/// The column of a text that becomes the value of a parameter.
const TEXT: &str = "value";

/// A query over tables and materialized views that was planned for parameters of these types, but not for certain values.
///
/// It counts for the version of the catalogue that it was planned against, with the rows of its views as they are when it is
/// answered.
///
/// ```
/// use tidemill_sql::{Parameter, ParameterType, Planner, Reply, divide};
/// let planner = Planner::new();
/// let statement = divide("SELECT $1 + 1 AS next", "example").unwrap()[0].read().unwrap();
/// let kept = planner.keep(&statement, &[ParameterType::BigInt]).unwrap();
/// let six = Parameter { kind: ParameterType::BigInt, value: Some("6".to_owned()) };
/// let Some(Ok(Reply::Rows(rows))) = planner.answer(&kept, &statement, &[six]) else { panic!("a row") };
/// assert_eq!((kept.columns().field(0).name().as_str(), rows.num_rows()), ("next", 1));
/// ```
#[derive(Debug)]
pub struct CachedPlan {
    plan: LogicalPlan,
    parameters: Vec<CachedParameter>,
    columns: SchemaRef,
    /// Whether expressions without columns are to be computed once the values are there.
    folds: bool,
    /// How many nodes it has, those of its expressions included.
    nodes: usize,
}

impl CachedPlan {
    /// The columns of its rows.
    pub fn columns(&self) -> &SchemaRef {
        &self.columns
    }

    /// The plan with values; `None` if one of them is NULL, or not of the type of its parameter.
    fn with_values(&self, values: &[Parameter]) -> Option<Result<LogicalPlan>> {
        // With NULL, most conditions select nothing, and a plan for it reads nothing.
        if values.len() != self.parameters.len() || values.iter().any(|value| value.value.is_none()) {
            return None;
        }
        let values = self.parameters.iter().zip(values).map(|(known, given)| known.value(given));
        let values: Vec<ScalarValue> = values.collect::<Option<_>>()?;
        if values.is_empty() {
            return Some(Ok(self.plan.clone()));
        }
        let plan = filled(self.plan.clone(), &values);
        Some(if self.folds { plan.and_then(fold) } else { plan })
    }
}

/// A parameter of a plan that is kept.
#[derive(Debug)]
struct CachedParameter {
    kind: ParameterType,
    data_type: DataType,
    /// Makes its value out of the text that a client gives; `None`: the text is the value.
    from_text: Option<Compiled>,
}

impl CachedParameter {
    /// `None` if the type of the planner depends on the value, or the planner has another form than a cast for it.
    fn new(kind: ParameterType, provider: &Provider<'_>) -> Option<CachedParameter> {
        if kind == ParameterType::Text {
            return Some(CachedParameter { kind, data_type: DataType::Utf8, from_text: None });
        }
        let data_type = match kind {
            ParameterType::Decimal
            | ParameterType::Bytes
            | ParameterType::Interval
            | ParameterType::List(_) => return None,
            kind => Parameter::null(kind).data_type(),
        };
        let cast = ast::Expr::Cast {
            kind: ast::CastKind::Cast,
            expr: Box::new(ast::Expr::Identifier(ast::Ident::with_quote('"', TEXT))),
            data_type,
            array: false,
            format: None,
        };
        let schema = DFSchema::try_from(text_schema().as_ref().clone()).ok()?;
        let from_text = Compiled::new(&provider.expression(&cast, &schema).ok()?, &schema).ok()?;
        let data_type = tidemill_engine::Expression::data_type(&from_text);
        Some(CachedParameter { kind, data_type, from_text: Some(from_text) })
    }

    fn field(&self, index: usize) -> FieldRef {
        Arc::new(Field::new(format!("${}", index + 1), self.data_type.clone(), true))
    }

    fn value(&self, given: &Parameter) -> Option<ScalarValue> {
        if given.kind != self.kind {
            return None;
        }
        let text = given.value.as_ref()?;
        match &self.from_text {
            None => Some(ScalarValue::Utf8(Some(text.clone()))),
            Some(from_text) => {
                let texts: ArrayRef = Arc::new(StringArray::from(vec![text.as_str()]));
                let row = RecordBatch::try_new(text_schema(), vec![texts]).ok()?;
                ScalarValue::try_from_array(&from_text.values(&row, &Cut::first()).ok()?, 0).ok()
            }
        }
    }
}

fn text_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new(TEXT, DataType::Utf8, true)]))
}

impl Planner {
    /// The plan of a query for parameters of these types; `None` if it is to be planned with the values each time: a query that
    /// reads a stream, a file or the past, has parameters where only constants can stand, or is wrong.
    pub fn keep(&self, statement: &Statement, kinds: &[ParameterType]) -> Option<CachedPlan> {
        let StatementKind::Query(query, options) = &statement.kind else { return None };
        if !options.is_empty() || options.as_of().is_some() || statement.parameters() > kinds.len() {
            return None;
        }
        let (turns, memory) = (&self.turns, self.settings.memory_of_reader());
        let plan = || {
            self.with_provider(|provider| {
                let parameters = kinds.iter().map(|kind| CachedParameter::new(*kind, provider));
                let parameters: Vec<CachedParameter> = parameters.collect::<Option<_>>()?;
                let fields = parameters.iter().enumerate().map(|(index, known)| known.field(index));
                let provider = provider.for_parameters(fields.collect());
                let (_, plan) = provider.plan(query).ok()?;
                let columns = shown_columns(&plan);
                // A column without a name is called by its expression, values included.
                let has_names = !columns.fields().iter().any(|field| field.name().contains('$'));
                let is_kept = has_names && is_static(&plan) && !provider.has_opened_files();
                let (casts, nodes) = is_kept.then(|| looked_through(&plan).ok()).flatten()?;
                // A truth value may leave over a condition alone.
                let folds = casts || kinds.contains(&ParameterType::Boolean);
                Some(CachedPlan { plan, parameters, columns, folds, nodes })
            })
        };
        with_deep_stack(|| within(turns, &memory, plan))
    }

    /// The rows of a query that was planned before against this version of the catalogue. `None`: it is to be planned with these
    /// values.
    ///
    /// # Errors
    /// The error, with its place in the statement.
    pub fn answer(
        &self,
        kept: &CachedPlan,
        statement: &Statement,
        values: &[Parameter],
    ) -> Option<std::result::Result<Reply, TextError>> {
        self.with_answerable(kept, statement, values, |plan| {
            self.answer_of(plan, &self.settings.memory_of_reader(), statement)
        })
    }

    /// What a query that was planned before reads with these values, as EXPLAIN says it; `None` as for `answer`.
    ///
    /// # Errors
    /// As `answer`.
    pub fn explain_answer(
        &self,
        kept: &CachedPlan,
        statement: &Statement,
        values: &[Parameter],
    ) -> Option<std::result::Result<String, TextError>> {
        let memory = self.settings.memory_of_reader();
        self.with_answerable(kept, statement, values, |plan| reads_text(plan, &memory))
    }

    /// Does something with the plan that is left to be answered once there are values.
    fn with_answerable<T>(
        &self,
        kept: &CachedPlan,
        statement: &Statement,
        values: &[Parameter],
        compute: impl FnOnce(&LogicalPlan) -> Result<T>,
    ) -> Option<std::result::Result<T, TextError>> {
        let memory = self.settings.memory_of_reader();
        with_stack_for(kept.nodes, || {
            let plan = within(&self.turns, &memory, || kept.with_values(values))?.ok()?;
            let computed = || {
                let parts = |name: &str| self.catalog.gateway_rows(name);
                let plan = same_versions_of(plan, |name| self.catalog.stored_rows(name), parts)?;
                let plan = read_as_tables(read_scalar_subqueries(plan, &memory, &*self.turns)?)?;
                if is_static(&plan) { compute(&plan).map(Some) } else { Ok(None) }
            };
            within(&self.turns, &memory, computed)
                .map_err(|error| self.text_error(&error, statement))
                .transpose()
        })
    }
}

/// Whether a plan compares columns of one type with parameters of another, and how many nodes it has.
fn looked_through(plan: &LogicalPlan) -> Result<(bool, usize)> {
    let (mut folds, mut nodes) = (false, 0);
    plan.look_through_with_subqueries(|node| {
        nodes += 1;
        node.look_through_expressions(|expression| {
            let (mut has_parameter, mut casts_column) = (false, false);
            expression.look_through(|part| {
                nodes += 1;
                match part {
                    Expr::Placeholder(_) => has_parameter = true,
                    Expr::Cast(cast) => casts_column |= !cast.expr.column_refs().is_empty(),
                    _ => {}
                }
                Ok(TreeNodeRecursion::Continue)
            })?;
            folds |= has_parameter && casts_column;
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok((folds, nodes))
}

/// The plan with values in the place of its parameters. Its columns keep their names.
fn filled(plan: LogicalPlan, values: &[ScalarValue]) -> Result<LogicalPlan> {
    plan.rewrite_up_with_subqueries(|node| {
        let names = NamePreserver::new(&node);
        node.rewrite_expressions(|expression| {
            if !expression.contains(|part| Ok(matches!(part, Expr::Placeholder(_))))? {
                return Ok(Transformed::no(expression));
            }
            let name = names.save(&expression);
            let filled = expression.rewrite_up(|part| Ok(with_value(part, values)))?;
            Ok(filled.update_data(|expression| name.restore(expression)))
        })
    })
    .data()
}

/// The value of a parameter, and what it is cast to.
fn with_value(part: Expr, values: &[ScalarValue]) -> Transformed<Expr> {
    let value = match &part {
        Expr::Placeholder(parameter) => {
            number(&parameter.id).and_then(|number| values.get(number - 1)).cloned()
        }
        Expr::Cast(cast) => match cast.expr.as_ref() {
            Expr::Literal(value, _) => value.cast_to(cast.field.data_type()).ok(),
            _ => None,
        },
        _ => None,
    };
    match value {
        Some(value) => Transformed::yes(Expr::Literal(value, None)),
        None => Transformed::no(part),
    }
}
