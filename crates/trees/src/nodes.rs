//! Walks over plans and expressions.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;

/// How a closure changes a node of a tree.
pub type Change<'a, T> = &'a mut dyn FnMut(T) -> Result<Transformed<T>>;

/// How a closure looks at a node of a tree, and whether it has seen enough.
pub type Look<'a, 'n, T> = &'a mut dyn FnMut(&'n T) -> Result<TreeNodeRecursion>;

/// Walks over a tree. Those that a caller names take any closure.
///
/// ```
/// use datafusion::common::tree_node::Transformed;
/// use datafusion::logical_expr::{Expr, col, lit};
/// use tidemill_trees::nodes::Tree;
/// let tree = col("a") + lit(1);
/// let renamed = tree.rewrite_up(|node| match node {
///     Expr::Column(_) => Ok(Transformed::yes(col("b"))),
///     node => Ok(Transformed::no(node)),
/// })?;
/// assert_eq!(renamed.data, col("b") + lit(1));
/// assert!(!renamed.data.contains(|node| Ok(*node == col("a")))?);
/// # Ok::<(), datafusion::common::DataFusionError>(())
/// ```
pub trait Tree: Sized {
    /// As [`rewrite_up`](Tree::rewrite_up), compiled here.
    ///
    /// # Errors
    /// As the closure.
    fn any_rewrite_up(self, change: Change<'_, Self>) -> Result<Transformed<Self>>;

    /// As [`rewrite_down`](Tree::rewrite_down), compiled here.
    ///
    /// # Errors
    /// As the closure.
    fn any_rewrite_down(self, change: Change<'_, Self>) -> Result<Transformed<Self>>;

    /// As [`rewrite_children`](Tree::rewrite_children), compiled here.
    ///
    /// # Errors
    /// As the closure.
    fn any_rewrite_children(self, change: Change<'_, Self>) -> Result<Transformed<Self>>;

    /// As [`look_through`](Tree::look_through), compiled here.
    ///
    /// # Errors
    /// As the closure.
    fn any_look_through<'n>(&'n self, look: Look<'_, 'n, Self>) -> Result<TreeNodeRecursion>;

    /// Changes each node after the nodes below it.
    ///
    /// # Errors
    /// As the closure.
    fn rewrite_up(
        self,
        mut change: impl FnMut(Self) -> Result<Transformed<Self>>,
    ) -> Result<Transformed<Self>> {
        self.any_rewrite_up(&mut change)
    }

    /// Changes each node before the nodes below it.
    ///
    /// # Errors
    /// As the closure.
    fn rewrite_down(
        self,
        mut change: impl FnMut(Self) -> Result<Transformed<Self>>,
    ) -> Result<Transformed<Self>> {
        self.any_rewrite_down(&mut change)
    }

    /// Changes the nodes directly below.
    ///
    /// # Errors
    /// As the closure.
    fn rewrite_children(
        self,
        mut change: impl FnMut(Self) -> Result<Transformed<Self>>,
    ) -> Result<Transformed<Self>> {
        self.any_rewrite_children(&mut change)
    }

    /// Looks at each node, before the nodes below it.
    ///
    /// # Errors
    /// As the closure.
    fn look_through<'n>(
        &'n self,
        mut look: impl FnMut(&'n Self) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.any_look_through(&mut look)
    }

    /// Whether the test holds for a node.
    ///
    /// # Errors
    /// As the closure.
    fn contains(&self, mut test: impl FnMut(&Self) -> Result<bool>) -> Result<bool> {
        let mut holds = false;
        self.look_through(|node| {
            holds = test(node)?;
            Ok(if holds { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        Ok(holds)
    }
}

macro_rules! tree {
    ($($node:ty),*) => {
        $(#[allow(clippy::disallowed_methods)]
        impl Tree for $node {
            fn any_rewrite_up(self, change: Change<'_, Self>) -> Result<Transformed<Self>> {
                self.transform_up(change)
            }

            fn any_rewrite_down(self, change: Change<'_, Self>) -> Result<Transformed<Self>> {
                self.transform_down(change)
            }

            fn any_rewrite_children(self, change: Change<'_, Self>) -> Result<Transformed<Self>> {
                self.map_children(change)
            }

            fn any_look_through<'n>(&'n self, look: Look<'_, 'n, Self>) -> Result<TreeNodeRecursion> {
                self.apply(look)
            }
        })*
    };
}

tree!(LogicalPlan, Expr, Arc<dyn PhysicalExpr>, Arc<dyn ExecutionPlan>);

/// Walks over a plan: over the expressions of a node, and through subqueries.
///
/// ```
/// use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
/// use datafusion::logical_expr::{LogicalPlanBuilder, lit};
/// use tidemill_trees::nodes::PlanTree;
/// let plan = LogicalPlanBuilder::empty(true).project([lit(1).alias("n")])?.build()?;
/// let plan = plan.rewrite_expressions(|_| Ok(Transformed::yes(lit(2).alias("n"))))?.data;
/// assert_eq!(plan.expressions(), [lit(2).alias("n")]);
/// # Ok::<(), datafusion::common::DataFusionError>(())
/// ```
pub trait PlanTree: Sized {
    /// As [`Tree::rewrite_up`], in subqueries, too.
    ///
    /// # Errors
    /// As the closure.
    fn rewrite_up_with_subqueries(
        self,
        change: impl FnMut(Self) -> Result<Transformed<Self>>,
    ) -> Result<Transformed<Self>>;

    /// As [`Tree::rewrite_down`], in subqueries, too.
    ///
    /// # Errors
    /// As the closure.
    fn rewrite_down_with_subqueries(
        self,
        change: impl FnMut(Self) -> Result<Transformed<Self>>,
    ) -> Result<Transformed<Self>>;

    /// As [`Tree::look_through`], in subqueries, too.
    ///
    /// # Errors
    /// As the closure.
    fn look_through_with_subqueries(
        &self,
        look: impl FnMut(&Self) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion>;

    /// Changes the expressions of this node.
    ///
    /// # Errors
    /// As the closure.
    fn rewrite_expressions(
        self,
        change: impl FnMut(Expr) -> Result<Transformed<Expr>>,
    ) -> Result<Transformed<Self>>;

    /// Looks at the expressions of this node.
    ///
    /// # Errors
    /// As the closure.
    fn look_through_expressions(
        &self,
        look: impl FnMut(&Expr) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion>;
}

impl PlanTree for LogicalPlan {
    fn rewrite_up_with_subqueries(
        self,
        mut change: impl FnMut(Self) -> Result<Transformed<Self>>,
    ) -> Result<Transformed<Self>> {
        any::rewrite_up_with_subqueries(self, &mut change)
    }

    fn rewrite_down_with_subqueries(
        self,
        mut change: impl FnMut(Self) -> Result<Transformed<Self>>,
    ) -> Result<Transformed<Self>> {
        any::rewrite_down_with_subqueries(self, &mut change)
    }

    fn look_through_with_subqueries(
        &self,
        mut look: impl FnMut(&Self) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        any::look_through_with_subqueries(self, &mut look)
    }

    fn rewrite_expressions(
        self,
        mut change: impl FnMut(Expr) -> Result<Transformed<Expr>>,
    ) -> Result<Transformed<Self>> {
        any::rewrite_expressions(self, &mut change)
    }

    fn look_through_expressions(
        &self,
        mut look: impl FnMut(&Expr) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        any::look_through_expressions(self, &mut look)
    }
}

/// The walks over plans, without a type of closure.
#[allow(clippy::disallowed_methods)]
mod any {
    use super::{Change, Expr, LogicalPlan, Result, Transformed, TreeNodeRecursion};

    pub fn rewrite_up_with_subqueries(
        plan: LogicalPlan,
        change: Change<'_, LogicalPlan>,
    ) -> Result<Transformed<LogicalPlan>> {
        plan.transform_up_with_subqueries(change)
    }

    pub fn rewrite_down_with_subqueries(
        plan: LogicalPlan,
        change: Change<'_, LogicalPlan>,
    ) -> Result<Transformed<LogicalPlan>> {
        plan.transform_down_with_subqueries(change)
    }

    pub fn look_through_with_subqueries(
        plan: &LogicalPlan,
        look: &mut dyn FnMut(&LogicalPlan) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        plan.apply_with_subqueries(look)
    }

    pub fn rewrite_expressions(
        plan: LogicalPlan,
        change: Change<'_, Expr>,
    ) -> Result<Transformed<LogicalPlan>> {
        plan.map_expressions(change)
    }

    pub fn look_through_expressions(
        plan: &LogicalPlan,
        look: &mut dyn FnMut(&Expr) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        plan.apply_expressions(look)
    }
}
