//! Walks over syntax trees.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, ObjectName, Query, Select, SelectItem, Statement, TableFactor, ValueWithSpan, Visit, VisitMut,
    Visitor, VisitorMut,
};

/// A node from which a walk may begin. [`walk`] and [`walk_mut`] take one.
pub trait Node {
    /// As [`walk`], compiled here.
    fn any_walk(&self, visitor: &mut dyn Visitor<Break = ()>) -> ControlFlow<()>;

    /// As [`walk_mut`], compiled here.
    fn any_walk_mut(&mut self, visitor: &mut dyn VisitorMut<Break = ()>) -> ControlFlow<()>;
}

macro_rules! nodes {
    ($($node:ty),*) => {
        $(#[allow(clippy::disallowed_methods)]
        impl Node for $node {
            fn any_walk(&self, visitor: &mut dyn Visitor<Break = ()>) -> ControlFlow<()> {
                Visit::visit(self, &mut AnyVisitor(visitor))
            }

            fn any_walk_mut(&mut self, visitor: &mut dyn VisitorMut<Break = ()>) -> ControlFlow<()> {
                VisitMut::visit(self, &mut AnyVisitorMut(visitor))
            }
        })*
    };
}

nodes!(Expr, Query, Select, Statement, Vec<SelectItem>);

impl<N: Node> Node for Box<N> {
    fn any_walk(&self, visitor: &mut dyn Visitor<Break = ()>) -> ControlFlow<()> {
        (**self).any_walk(visitor)
    }

    fn any_walk_mut(&mut self, visitor: &mut dyn VisitorMut<Break = ()>) -> ControlFlow<()> {
        (**self).any_walk_mut(visitor)
    }
}

/// Shows a visitor all parts of a node.
///
/// ```
/// use std::ops::ControlFlow;
/// use datafusion::sql::sqlparser::ast::{ObjectName, Visitor};
/// use datafusion::sql::sqlparser::dialect::GenericDialect;
/// use datafusion::sql::sqlparser::parser::Parser;
/// use tidemill_trees::syntax::walk;
/// struct FirstRelation;
/// impl Visitor for FirstRelation {
///     type Break = String;
///     fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<String> {
///         ControlFlow::Break(name.to_string())
///     }
/// }
/// let statements = Parser::parse_sql(&GenericDialect {}, "SELECT 1 FROM a JOIN b ON true").unwrap();
/// assert_eq!(walk(&statements[0], &mut FirstRelation), ControlFlow::Break("a".to_owned()));
/// ```
pub fn walk<V: Visitor>(node: &impl Node, visitor: &mut V) -> ControlFlow<V::Break> {
    let mut stopping = Stopping { visitor, found: None };
    let _ = node.any_walk(&mut stopping);
    stopping.found.map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

/// Lets a visitor change all parts of a node; [`walk_expressions_mut`] shows it.
pub fn walk_mut<V: VisitorMut>(node: &mut impl Node, visitor: &mut V) -> ControlFlow<V::Break> {
    let mut stopping = Stopping { visitor, found: None };
    let _ = node.any_walk_mut(&mut stopping);
    stopping.found.map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

/// Lets a function change each expression, after the expressions in it.
///
/// ```
/// use std::ops::ControlFlow;
/// use datafusion::sql::sqlparser::ast::{Expr, Value};
/// use datafusion::sql::sqlparser::dialect::GenericDialect;
/// use datafusion::sql::sqlparser::parser::Parser;
/// use tidemill_trees::syntax::walk_expressions_mut;
/// let mut tree = Parser::new(&GenericDialect {}).try_with_sql("a + 1").unwrap().parse_expr().unwrap();
/// let _ = walk_expressions_mut(&mut tree, |expression| {
///     if let Expr::Identifier(_) = expression {
///         *expression = Expr::value(Value::Null);
///     }
///     ControlFlow::<()>::Continue(())
/// });
/// assert_eq!(tree.to_string(), "NULL + 1");
/// ```
pub fn walk_expressions_mut<E>(
    node: &mut impl Node,
    change: impl FnMut(&mut Expr) -> ControlFlow<E>,
) -> ControlFlow<E> {
    struct Expressions<F>(F);

    impl<E, F: FnMut(&mut Expr) -> ControlFlow<E>> VisitorMut for Expressions<F> {
        type Break = E;

        fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<E> {
            self.0(expression)
        }
    }

    walk_mut(node, &mut Expressions(change))
}

/// Keeps that with which a visitor ends the walk, so that all visitors end it with the same type.
struct Stopping<'a, V, B> {
    visitor: &'a mut V,
    found: Option<B>,
}

impl<V, B> Stopping<'_, V, B> {
    fn keep(&mut self, flow: ControlFlow<B>) -> ControlFlow<()> {
        flow.map_break(|found| self.found = Some(found))
    }
}

/// The only type of visitor for which the parser's functions are compiled.
struct AnyVisitor<'a>(&'a mut dyn Visitor<Break = ()>);

/// The same for visitors that change what they see.
struct AnyVisitorMut<'a>(&'a mut dyn VisitorMut<Break = ()>);

macro_rules! forward {
    ($($method:ident: $node:ty),* $(,)?) => {
        impl<V: Visitor> Visitor for Stopping<'_, V, V::Break> {
            type Break = ();
            $(fn $method(&mut self, node: &$node) -> ControlFlow<()> {
                let flow = self.visitor.$method(node);
                self.keep(flow)
            })*
        }

        impl<V: VisitorMut> VisitorMut for Stopping<'_, V, V::Break> {
            type Break = ();
            $(fn $method(&mut self, node: &mut $node) -> ControlFlow<()> {
                let flow = self.visitor.$method(node);
                self.keep(flow)
            })*
        }

        impl Visitor for AnyVisitor<'_> {
            type Break = ();
            $(fn $method(&mut self, node: &$node) -> ControlFlow<()> {
                self.0.$method(node)
            })*
        }

        impl VisitorMut for AnyVisitorMut<'_> {
            type Break = ();
            $(fn $method(&mut self, node: &mut $node) -> ControlFlow<()> {
                self.0.$method(node)
            })*
        }
    };
}

forward! {
    pre_visit_query: Query,
    post_visit_query: Query,
    pre_visit_select: Select,
    post_visit_select: Select,
    pre_visit_relation: ObjectName,
    post_visit_relation: ObjectName,
    pre_visit_table_factor: TableFactor,
    post_visit_table_factor: TableFactor,
    pre_visit_expr: Expr,
    post_visit_expr: Expr,
    pre_visit_statement: Statement,
    post_visit_statement: Statement,
    pre_visit_value: ValueWithSpan,
    post_visit_value: ValueWithSpan,
}
