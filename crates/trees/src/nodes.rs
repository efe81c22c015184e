//! Rewrites of plans and expressions, compiled once for each kind of tree. DataFusion's own functions are compiled again for each
//! closure, with all kinds of nodes: with some sixty closures, that was a third of this crate's code.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};

/// How a closure changes a node of a tree.
type Change<'a, T> = &'a mut dyn FnMut(T) -> Result<Transformed<T>>;

/// How a closure looks at a node of a tree, and whether it has seen enough.
type Look<'a, 'n, T> = &'a mut dyn FnMut(&'n T) -> Result<TreeNodeRecursion>;

/// Walks over any tree of DataFusion's.
#[allow(clippy::disallowed_methods)]
pub(crate) trait Tree: TreeNode {
    /// Changes each node after the nodes below it.
    fn rewrite_up(
        self,
        mut change: impl FnMut(Self) -> Result<Transformed<Self>>,
    ) -> Result<Transformed<Self>> {
        self.transform_up::<Change<'_, Self>>(&mut change)
    }

    /// Changes each node before the nodes below it.
    fn rewrite_down(
        self,
        mut change: impl FnMut(Self) -> Result<Transformed<Self>>,
    ) -> Result<Transformed<Self>> {
        self.transform_down::<Change<'_, Self>>(&mut change)
    }

    /// Changes the nodes directly below.
    fn rewrite_children(
        self,
        mut change: impl FnMut(Self) -> Result<Transformed<Self>>,
    ) -> Result<Transformed<Self>> {
        self.map_children::<Change<'_, Self>>(&mut change)
    }

    /// Looks at each node, before the nodes below it.
    fn look_through<'n>(
        &'n self,
        mut look: impl FnMut(&'n Self) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.apply::<Look<'_, 'n, Self>>(&mut look)
    }

    /// Whether the test holds for a node.
    fn contains(&self, mut test: impl FnMut(&Self) -> Result<bool>) -> Result<bool> {
        self.exists::<&mut dyn FnMut(&Self) -> Result<bool>>(&mut test)
    }
}

impl<T: TreeNode> Tree for T {}

/// Walks over plans: over their expressions, and through their subqueries.
pub(crate) trait PlanTree: Sized {
    /// As `Tree::rewrite_up`, in subqueries, too.
    fn rewrite_up_with_subqueries(
        self,
        change: impl FnMut(Self) -> Result<Transformed<Self>>,
    ) -> Result<Transformed<Self>>;

    /// As `Tree::rewrite_down`, in subqueries, too.
    fn rewrite_down_with_subqueries(
        self,
        change: impl FnMut(Self) -> Result<Transformed<Self>>,
    ) -> Result<Transformed<Self>>;

    /// As `Tree::look_through`, in subqueries, too.
    fn look_through_with_subqueries(
        &self,
        look: impl FnMut(&Self) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion>;

    /// Changes the expressions of this node.
    fn rewrite_expressions(
        self,
        change: impl FnMut(Expr) -> Result<Transformed<Expr>>,
    ) -> Result<Transformed<Self>>;

    /// Looks at the expressions of this node.
    fn look_through_expressions(
        &self,
        look: impl FnMut(&Expr) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion>;
}

#[allow(clippy::disallowed_methods)]
impl PlanTree for LogicalPlan {
    fn rewrite_up_with_subqueries(
        self,
        mut change: impl FnMut(Self) -> Result<Transformed<Self>>,
    ) -> Result<Transformed<Self>> {
        self.transform_up_with_subqueries::<Change<'_, Self>>(&mut change)
    }

    fn rewrite_down_with_subqueries(
        self,
        mut change: impl FnMut(Self) -> Result<Transformed<Self>>,
    ) -> Result<Transformed<Self>> {
        self.transform_down_with_subqueries::<Change<'_, Self>>(&mut change)
    }

    fn look_through_with_subqueries(
        &self,
        mut look: impl FnMut(&Self) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.apply_with_subqueries::<&mut dyn FnMut(&Self) -> Result<TreeNodeRecursion>>(&mut look)
    }

    fn rewrite_expressions(
        self,
        mut change: impl FnMut(Expr) -> Result<Transformed<Expr>>,
    ) -> Result<Transformed<Self>> {
        self.map_expressions::<Change<'_, Expr>>(&mut change)
    }

    fn look_through_expressions(
        &self,
        mut look: impl FnMut(&Expr) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.apply_expressions::<&mut dyn FnMut(&Expr) -> Result<TreeNodeRecursion>>(&mut look)
    }
}
