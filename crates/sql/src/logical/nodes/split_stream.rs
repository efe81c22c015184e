//! The node of `splitstream(TABLE(input), q, route => ..., broadcast => ...)` in FROM: q sub-streams of one stream
//! (thesis, Paper IV, section 3).

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{Column, DFSchema, DFSchemaRef, Result, TableReference, plan_err};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, UserDefinedLogicalNodeCore, cast, lit};
use tidemill_engine::SplittersBy;

/// How to split: the user's choice, on which no result depends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SplitChoice {
    pub shape: SplitShape,
    /// The size of a physical window.
    pub window: SplitWindow,
    /// The rate to reach, in rows per second; `None`: as fast as can be.
    pub rate: Option<f64>,
}

/// How many rows a physical window has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum SplitWindow {
    /// As many as usual. Where the engine chooses the plan, it also searches the size.
    Default,
    /// The engine searches the size while the query runs.
    Searched,
    /// This many.
    Rows(u32),
}

/// The plans of the thesis, by name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum SplitShape {
    Auto,
    Fsplit,
    Exptree,
    /// The share of rows that is expected to be broadcast.
    Maxtree(f64),
    Autosplit,
    Parasplit {
        splitters: LatticeSplitters,
        /// Whether the windows pass a tree of window routers.
        is_tree: bool,
    },
}

/// How many splitters a lattice has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum LatticeSplitters {
    /// One for each worker.
    Workers,
    Number(u32),
    /// As many as a rule says, from measured costs.
    By(SplittersBy),
}

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SplitStream {
    pub input: LogicalPlan,
    /// The number of the sub-stream, a BIGINT; rows with NULL go to none.
    pub route: Expr,
    /// Whether the rows that are not broadcast are dealt to one sub-stream after the other instead.
    pub is_dealt: bool,
    /// Whether the row goes to all of them; BOOLEAN.
    pub broadcast: Option<Expr>,
    /// The number of sub-streams.
    pub partitions: u32,
    pub choice: SplitChoice,
    /// Whether the number of its sub-stream is the last column of a row.
    pub is_numbered: bool,
    pub schema: DFSchemaRef,
}

/// The qualifier and the name of the column with the number. A query cannot name it.
const NUMBER: (&str, &str) = ("mapstream", "sub-stream");

impl SplitStream {
    /// Checks the types of the routing functions.
    pub fn new(
        input: LogicalPlan,
        route: Option<Expr>,
        broadcast: Option<Expr>,
        partitions: u32,
        choice: SplitChoice,
    ) -> Result<Self> {
        let schema = Arc::clone(input.schema());
        let route = route.unwrap_or_else(|| lit(datafusion::common::ScalarValue::Int64(None)));
        let route = match route.get_type(&schema)? {
            DataType::Int64 => route,
            wanted if wanted.is_integer() || wanted.is_null() => cast(route, DataType::Int64),
            other => {
                return plan_err!(
                    "route must be the number of a sub-stream, which is a whole number, but it is {other}; \
                     write CAST(floor(x) AS BIGINT)"
                );
            }
        };
        if let Some(broadcast) = &broadcast {
            let found = broadcast.get_type(&schema)?;
            if found != DataType::Boolean {
                return plan_err!("broadcast must be a condition, but it is {found}");
            }
        }
        let (is_dealt, is_numbered) = (false, false);
        Ok(SplitStream { input, route, is_dealt, broadcast, partitions, choice, is_numbered, schema })
    }

    /// The same sub-streams with their numbers, and the column that has them.
    pub fn numbered(&self) -> Result<(SplitStream, Column)> {
        let schema = numbered_schema(&self.input)?;
        let column = Column::new(Some(NUMBER.0), NUMBER.1);
        Ok((SplitStream { is_numbered: true, schema, ..self.clone() }, column))
    }
}

fn numbered_schema(input: &LogicalPlan) -> Result<DFSchemaRef> {
    let fields = input.schema().iter().map(|(qualifier, field)| (qualifier.cloned(), Arc::clone(field)));
    let number = Arc::new(Field::new(NUMBER.1, DataType::Int64, true));
    let number = (Some(TableReference::bare(NUMBER.0)), number);
    Ok(Arc::new(DFSchema::new_with_metadata(fields.chain([number]).collect(), Default::default())?))
}

impl Eq for SplitStream {}

impl Hash for SplitStream {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.input.hash(state);
        self.route.hash(state);
        self.broadcast.hash(state);
        self.partitions.hash(state);
    }
}

impl PartialOrd for SplitStream {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (&self.input, self.partitions).partial_cmp(&(&other.input, other.partitions))
    }
}

impl UserDefinedLogicalNodeCore for SplitStream {
    fn name(&self) -> &str {
        "SplitStream"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    /// The routing functions.
    fn expressions(&self) -> Vec<Expr> {
        std::iter::once(self.route.clone()).chain(self.broadcast.clone()).collect()
    }

    /// Sub-streams contain the rows unchanged, so unwanted rows need not be split; only their numbers are new. But whose
    /// turn it is depends on all rows.
    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        if self.is_dealt {
            self.schema.fields().iter().map(|field| field.name().clone()).collect()
        } else {
            self.is_numbered.then(|| NUMBER.1.to_owned()).into_iter().collect()
        }
    }

    /// The wanted columns, and those that determine where a row goes.
    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let schema = self.input.schema();
        let routing = std::iter::once(&self.route).chain(&self.broadcast).flat_map(Expr::column_refs);
        let mut needed: Vec<usize> =
            routing.filter_map(|column| schema.maybe_index_of_column(column)).collect();
        needed.extend(output_columns.iter().filter(|column| **column < schema.fields().len()));
        needed.sort_unstable();
        needed.dedup();
        // Rows are dealt even if no column is read; one column carries them.
        if needed.is_empty() {
            needed.push(0);
        }
        Some(vec![needed])
    }

    fn fmt_for_explain(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_dealt {
            write!(formatter, "SplitStream: {} by round robin", self.partitions)?
        } else {
            write!(formatter, "SplitStream: {} by {}", self.partitions, self.route)?
        }
        match &self.broadcast {
            Some(broadcast) => write!(formatter, ", broadcast {broadcast}"),
            None => Ok(()),
        }
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        let mut exprs = exprs.into_iter();
        let route = exprs.next().unwrap_or_else(|| self.route.clone());
        let broadcast = self.broadcast.is_some().then(|| exprs.next()).flatten();
        let input = inputs.pop().unwrap_or_else(|| self.input.clone());
        let schema = if self.is_numbered { numbered_schema(&input)? } else { Arc::clone(input.schema()) };
        Ok(SplitStream { input, route, broadcast, schema, ..self.clone() })
    }
}
