//! How far the last cut of a folder says that its streams are.

use std::collections::BTreeMap;
use std::path::Path;

use tidemill_core::Cut;
use tidemill_core::error::Cause;
use tidemill_core::fields::Fields;

use super::{open_segment, segments};
use crate::current_query;
use crate::cut_record::decode_cut;
use crate::database;
use crate::epochs::{self, Epoch};
use crate::failure::damaged;
use crate::layout;
use crate::medium::Medium;
use crate::query;
use crate::scan::Next;

/// The positions of streams at the last cut, by the streams' names. What the journal of a database has noted as lost does not count.
pub(super) fn named_positions(medium: &dyn Medium, folder: &Path) -> Result<BTreeMap<String, u64>, Cause> {
    let own = current_query::folder_of(medium, folder)?;
    let Some(cut) = last_cut(medium, &layout::cuts(&own))? else { return Ok(BTreeMap::new()) };
    let description = query::read(medium, &layout::query(&own))?.unwrap_or_default();
    let names: Vec<&str> = match database::sources(&description) {
        Some(names) => names,
        None => database::sources_of_pipeline(&description, cut.positions.len()),
    };
    let lost = epochs::read(medium, &layout::epochs(folder))?;
    let lost = |index: usize| {
        lost.iter().rev().find_map(|epoch| match epoch {
            Epoch::Lost(lost) if lost.source == index && lost.cycles.contains(&cut.cycle) => {
                Some(lost.position)
            }
            Epoch::Lost(_) | Epoch::Opened { .. } => None,
        })
    };
    let position = |(index, name): (usize, &str)| {
        let position = lost(index).or(cut.positions.get(index).copied())?;
        Some((name.to_owned(), position))
    };
    Ok(names.into_iter().enumerate().filter_map(position).collect())
}

/// The last cut that can be read.
fn last_cut(medium: &dyn Medium, folder: &Path) -> Result<Option<Cut>, Cause> {
    for first in segments(medium, folder)?.into_iter().rev() {
        let (_, mut scan) = open_segment(medium, folder, first)?;
        let mut last = None;
        while let Next::Record(found) = scan.next()? {
            last = Some(found);
        }
        if let Some(found) = last {
            let cut = decode_cut(&mut Fields(&found.bytes[found.head.content()]));
            return cut.map(Some).map_err(|_| damaged(&scan.path, found.offset, "this is not a cut"));
        }
    }
    Ok(None)
}
