//! The rules by which a streaming query is rewritten: DataFusion's rules whose results a stream can execute.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::analyzer::Analyzer;
use datafusion::optimizer::decorrelate_lateral_join::DecorrelateLateralJoin;
use datafusion::optimizer::decorrelate_predicate_subquery::DecorrelatePredicateSubquery;
use datafusion::optimizer::eliminate_duplicated_expr::EliminateDuplicatedExpr;
use datafusion::optimizer::eliminate_filter::EliminateFilter;
use datafusion::optimizer::eliminate_group_by_constant::EliminateGroupByConstant;
use datafusion::optimizer::eliminate_outer_join::EliminateOuterJoin;
use datafusion::optimizer::optimize_projections::OptimizeProjections;
use datafusion::optimizer::push_down_filter::PushDownFilter;
use datafusion::optimizer::replace_distinct_aggregate::ReplaceDistinctWithAggregate;
use datafusion::optimizer::scalar_subquery_to_join::ScalarSubqueryToJoin;
use datafusion::optimizer::simplify_expressions::SimplifyExpressions;
use datafusion::optimizer::{Optimizer, OptimizerContext, OptimizerRule};

use super::casts::rounded_casts::with_rounded_casts;
use super::casts::text_casts::with_texts_read;
use super::casts::time_casts::with_time_casts;
use super::casts::untyped_texts::with_values;
use super::casts::value_texts::{with_texts, with_texts_joined};
use super::datafusion_repairs::absent_rows::with_absent_rows;
use super::datafusion_repairs::arithmetic::{with_checks, without_checks};
use super::datafusion_repairs::constant_in::with_constants_compared;
use super::datafusion_repairs::cross_joins::CrossJoins;
use super::datafusion_repairs::dates::with_times;
use super::datafusion_repairs::dependent::with_dependent_joins;
use super::datafusion_repairs::equal_keys::EqualKeys;
use super::datafusion_repairs::floats::{with_decimals_compared, with_one_nan, without_one_nan};
use super::datafusion_repairs::interval_lengths::with_lengths_compared;
use super::datafusion_repairs::marks::{with_marks, with_predicates_selected};
use super::datafusion_repairs::opaque::{with_opaque, without_opaque};
use super::datafusion_repairs::order_insensitive::{with_distinct_arguments, without_useless_orders};
use super::datafusion_repairs::order_of_inputs::without_hidden_orders;
use super::datafusion_repairs::subquery_predicates::with_three_values;
use super::functions::json::kind::with_json_told;
use super::functions::times::read_patterns::with_times_read;
use super::limits::bounded_operators::{with_bounds, without_bounds};
use super::limits::plan_size::BoundedRule;
use super::nodes::select_before::SelectBefore;
use super::totals::duration_totals::with_exact_durations;

/// Coerces types, then rewrites the plan until nothing changes.
pub(crate) fn optimize(plan: LogicalPlan, options: &ConfigOptions) -> Result<LogicalPlan> {
    let plan = with_dependent_joins(with_predicates_selected(without_hidden_orders(plan)?)?)?;
    let plan = coerce(plan, options)?;
    // Predicates have made values of some subqueries.
    let plan = with_dependent_joins(with_marks(with_three_values(plan)?)?)?;
    let rules: Vec<Arc<dyn OptimizerRule + Send + Sync>> = vec![
        Arc::new(SimplifyExpressions::new()),
        Arc::new(ReplaceDistinctWithAggregate::new()),
        Arc::new(DecorrelatePredicateSubquery::new()),
        Arc::new(ScalarSubqueryToJoin::new()),
        Arc::new(DecorrelateLateralJoin::new()),
        Arc::new(EqualKeys::default()),
        Arc::new(EliminateDuplicatedExpr::new()),
        Arc::new(EliminateFilter::new()),
        Arc::new(CrossJoins::default()),
        Arc::new(EliminateOuterJoin::new()),
        Arc::new(PushDownFilter::new()),
        Arc::new(SelectBefore),
        Arc::new(EliminateGroupByConstant::new()),
        Arc::new(OptimizeProjections::new()),
    ];
    by_rules(plan, rules, options)
}

/// The plan in which expressions that read no column are computed, after its parameters have got values.
pub(crate) fn fold(plan: LogicalPlan) -> Result<LogicalPlan> {
    by_rules(plan, vec![Arc::new(SimplifyExpressions::new())], &ConfigOptions::default())
}

fn by_rules(
    plan: LogicalPlan,
    rules: Vec<Arc<dyn OptimizerRule + Send + Sync>>,
    options: &ConfigOptions,
) -> Result<LogicalPlan> {
    // No start time: now() is the closing time of each cycle, not of the planning.
    let context = OptimizerContext::new_with_config_options(Arc::new(options.clone()))
        .without_query_execution_start_time();
    let plan = with_one_nan(with_opaque(with_checks(with_bounds(plan)?)?)?)?;
    let rules = rules.into_iter().map(|rule| Arc::new(BoundedRule(rule)) as _).collect();
    let plan = Optimizer::with_rules(rules).optimize(plan, &context, |_, _| {})?;
    without_bounds(without_checks(without_opaque(without_one_nan(plan)?)?)?)
}

/// Casts compared or combined expressions to common types.
pub(super) fn coerce(plan: LogicalPlan, options: &ConfigOptions) -> Result<LogicalPlan> {
    let plan = with_absent_rows(with_json_told(plan)?)?;
    let plan = with_rounded_casts(with_values(with_texts_joined(plan)?)?)?;
    let plan = with_times(with_decimals_compared(with_lengths_compared(with_exact_durations(
        with_times_read(without_useless_orders(plan)?)?,
    )?)?)?)?;
    let coerced = Analyzer::new().execute_and_check(plan, options, |_, _| {})?;
    let read = with_constants_compared(with_texts_read(coerced)?)?;
    with_distinct_arguments(with_texts(with_time_casts(read)?)?)
}
