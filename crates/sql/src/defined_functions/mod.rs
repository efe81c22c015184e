//! Functions that are defined in SQL or loaded: what a call of them means.
//!
//! A call of a function of values is replaced by its body in the syntax tree, before anything is planned. A body names
//! nothing but its parameters, so that nothing in it can mean a column of the caller; and arguments are put in at once,
//! so that nothing in them can mean a parameter. A call of a function whose code is loaded becomes a call of that code,
//! by a name that no other code has: so what is defined with it keeps it when the function is replaced. A call in FROM is
//! replaced by the name of a view, which is planned apart from the caller: so a `WITH` of the caller is not seen by the
//! body.

mod body;
mod expand;
mod loaded;
mod loaded_operator;
mod loaded_scalar;
mod parameter_types;
mod size;
mod unused_names;
mod values;

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast;

pub(crate) use self::body::{Wrong, check, check_keys, rows_query, tried_with, with_samples};
pub(crate) use self::expand::{Expansion, TableCall};
pub(crate) use self::loaded::{DIGEST_MARK, Loaded, LoadedFunctions, name_in_plans, shown, without_digests};
pub(crate) use self::loaded_operator::LoadedOperator;
pub(crate) use self::loaded_scalar::LoadedScalar;
pub(crate) use self::parameter_types::parameter_types;
pub(crate) use self::size::nodes;
pub(crate) use self::values::typed;
use crate::statement::Statement;

/// How many nodes the calls of a statement may add to it.
pub(crate) const NODES_MAX: usize = 10_000;

/// How many functions may call each other in a row: each call in FROM takes stack while it is planned.
pub(crate) const LEVELS_MAX: usize = 30;

/// The functions by name.
pub(crate) type DefinedFunctions = BTreeMap<String, Arc<DefinedFunction>>;

/// A function that is defined in SQL, or whose code is loaded.
#[derive(Clone, Debug)]
pub(crate) struct DefinedFunction {
    pub name: String,
    /// What defined it.
    pub definition: Arc<Statement>,
    pub parameters: Vec<(String, ast::DataType)>,
    pub result: Meaning,
    /// The functions that it calls, as they were when it was defined.
    pub uses: DefinedFunctions,
    /// Its nodes, with those of the functions that it calls.
    pub nodes: usize,
    /// How many functions call each other in a row below this one.
    pub levels: usize,
}

/// What a call gives.
#[derive(Clone, Debug)]
pub(crate) enum Meaning {
    /// An expression over the parameters without calls of defined functions, cast to the result's type.
    Value(Box<ast::Expr>),
    /// A query with the declared columns.
    Rows(Box<ast::Query>),
    /// A function whose code is loaded, which a call names in its plan.
    Loaded(Loaded),
}

impl DefinedFunction {
    /// The calls from this function to another, as names, if it calls that one.
    pub fn path_to(&self, name: &str) -> Option<Vec<String>> {
        if self.name == name {
            return Some(vec![self.name.clone()]);
        }
        let below = self.uses.values().find_map(|used| used.path_to(name))?;
        Some(std::iter::once(self.name.clone()).chain(below).collect())
    }
}
