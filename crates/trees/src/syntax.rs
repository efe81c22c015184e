//! Walks over syntax trees, compiled once. The parser's own functions are compiled again for each type of visitor, with all kinds
//! of nodes: with some twenty visitors, that was most of this crate's code and two thirds of its build.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, ObjectName, Query, Select, Statement, TableFactor, ValueWithSpan, Visit, VisitMut, Visitor,
    VisitorMut,
};

/// Shows a visitor all parts of a node.
pub(crate) fn walk<V: Visitor>(node: &impl Visit, visitor: &mut V) -> ControlFlow<V::Break> {
    let mut stopping = Stopping { visitor, found: None };
    let _ = visit(node, &mut AnyVisitor(&mut stopping));
    stopping.found.map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

/// Lets a visitor change all parts of a node.
pub(crate) fn walk_mut<V: VisitorMut>(node: &mut impl VisitMut, visitor: &mut V) -> ControlFlow<V::Break> {
    let mut stopping = Stopping { visitor, found: None };
    let _ = visit_mut(node, &mut AnyVisitorMut(&mut stopping));
    stopping.found.map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

/// Lets a function change each expression, after the expressions in it.
pub(crate) fn walk_expressions_mut<E>(
    node: &mut impl VisitMut,
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

#[allow(clippy::disallowed_methods)]
fn visit(node: &impl Visit, visitor: &mut AnyVisitor<'_>) -> ControlFlow<()> {
    node.visit(visitor)
}

#[allow(clippy::disallowed_methods)]
fn visit_mut(node: &mut impl VisitMut, visitor: &mut AnyVisitorMut<'_>) -> ControlFlow<()> {
    node.visit(visitor)
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
