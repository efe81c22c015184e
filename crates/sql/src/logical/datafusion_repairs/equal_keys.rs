//! Keys of joins in which NULL equals NULL.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{NullEquality, Result};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::extract_equijoin_predicate::ExtractEquijoinPredicate;
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{Optimizer, OptimizerConfig, OptimizerRule};

/// DataFusion's [`ExtractEquijoinPredicate`], except where a join has keys of `IS NOT DISTINCT FROM`. There it would make keys of
/// `=`, too, which come from WHERE once the join is known: NULL would equal NULL in them as well.
#[derive(Debug, Default)]
pub(crate) struct EqualKeys(ExtractEquijoinPredicate);

/// Returns DataFusion's rules for a query that is computed once, with [`EqualKeys`] in its place.
pub(crate) fn batch_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let own = || Arc::new(EqualKeys::default()) as _;
    let replaced = |rule: &Arc<dyn OptimizerRule + Send + Sync>| rule.name() == EqualKeys::default().name();
    Optimizer::new().rules.into_iter().map(|rule| if replaced(&rule) { own() } else { rule }).collect()
}

impl OptimizerRule for EqualKeys {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match &plan {
            LogicalPlan::Join(join) if join.null_equality == NullEquality::NullEqualsNull => {
                Ok(Transformed::no(plan))
            }
            _ => self.0.rewrite(plan, config),
        }
    }
}
