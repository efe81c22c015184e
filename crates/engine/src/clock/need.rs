//! From where on queries need what was journaled.

/// From where on a query needs what was journaled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Need {
    /// The last cycle that it does not need; `None`: it needs all.
    pub after: Option<u64>,
    /// For each of its sources, the first position that it needs.
    pub positions: Vec<(usize, u64)>,
}

/// The first position of a source that one of these needs.
pub(super) fn least<'a>(needs: impl Iterator<Item = &'a Need>, source: usize) -> Option<u64> {
    let positions = needs.flat_map(|need| &need.positions);
    positions.filter(|(of, _)| *of == source).map(|(_, position)| *position).min()
}
