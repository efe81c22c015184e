//! The kinds of joins, and what each of them writes.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::ChangingJoinSpec;
use crate::changes::changelog_schema;

/// What a join of changing relations writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangingJoinKind {
    /// The pairs.
    Inner,
    /// The pairs, and the left rows without a partner, with NULLs on the right.
    Left,
    /// The pairs, and the right rows without a partner, with NULLs on the left.
    Right,
    /// The pairs, and the rows of both sides without a partner.
    Full,
    /// The left rows that have a partner.
    LeftSemi,
    /// The left rows that have none.
    LeftAnti,
    /// The right rows that have a partner.
    RightSemi,
    /// The right rows that have none.
    RightAnti,
    /// All left rows, each with whether it has a partner.
    LeftMark,
}

/// What is written of a single row, depending on whether it has a partner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alone {
    /// Nothing: only pairs matter.
    Never,
    /// The row, if it has no partner.
    WithoutPartner,
    /// The row, if it has one.
    WithPartner,
    /// The row, with whether it has one.
    Marked,
}

/// The sides of a join.
pub(super) const LEFT: usize = 0;
/// The other one.
pub(super) const RIGHT: usize = 1;

impl ChangingJoinKind {
    /// Whether pairs are written.
    pub(super) fn writes_pairs(self) -> bool {
        use ChangingJoinKind::*;
        matches!(self, Inner | Left | Right | Full)
    }

    /// What is written of the single rows of a side.
    pub(super) fn alone(self, side: usize) -> Alone {
        use ChangingJoinKind::*;
        match (self, side) {
            (Left | Full | LeftAnti, LEFT) | (Right | Full | RightAnti, RIGHT) => Alone::WithoutPartner,
            (LeftSemi, LEFT) | (RightSemi, RIGHT) => Alone::WithPartner,
            (LeftMark, LEFT) => Alone::Marked,
            _ => Alone::Never,
        }
    }
}

/// The columns of the output: those of the kind, and the weight.
pub(super) fn output_schema(spec: &ChangingJoinSpec) -> SchemaRef {
    use ChangingJoinKind::*;
    let nullable = |field: &Arc<Field>| Arc::new(field.as_ref().clone().with_nullable(true));
    let side = |schema: &SchemaRef, is_optional: bool| -> Vec<Arc<Field>> {
        let fields = schema.fields().iter();
        fields.map(|field| if is_optional { nullable(field) } else { Arc::clone(field) }).collect()
    };
    let left = side(&spec.left, matches!(spec.kind, Right | Full));
    let right = side(&spec.right, matches!(spec.kind, Left | Full));
    let fields = match spec.kind {
        Inner | Left | Right | Full => [left, right].concat(),
        LeftSemi | LeftAnti => left,
        RightSemi | RightAnti => right,
        LeftMark => [left, vec![Arc::new(Field::new("mark", DataType::Boolean, false))]].concat(),
    };
    changelog_schema(&Arc::new(Schema::new(fields)))
}
