//! The rows that a scan searches: in a store of this process, or in parts at gateways.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, TableScan};
use tidemill_engine::{Cause, MemoryAccount};
use tidemill_store::remote::RemoteVersion;
use tidemill_store::{Pause, SelectedRows, Selection, StoreConfig, StoreReader, Version};

use crate::limit_reached::limit_reached;
use crate::relations::gateway_rows::GatewayRows;
use crate::relations::source_definition::scanned;
use crate::relations::stored_rows::StoredRows;
use crate::turns::{Turn, turn_refused};

/// Who reads: its turn among others, and the memory that it holds.
pub(crate) struct Reader<'a> {
    pub turn: &'a mut dyn Turn,
    pub memory: &'a mut MemoryAccount,
}

/// The rows that a scan searches, as of one version.
pub(super) enum Searched {
    /// In a store of this process.
    Here(StoredRows, Version),
    /// In parts, each in a process of its own.
    AtGateways(GatewayRows, Arc<[RemoteVersion]>),
}

impl Searched {
    /// `None` if the scan is not of a store.
    pub fn by(scan: &TableScan, reader: &mut Reader<'_>) -> Result<Option<Searched>> {
        let Some(source) = scanned(scan.source.as_ref()) else { return Ok(None) };
        if let Some(stored) = &source.definition.stored {
            let version = stored.version().map_err(|cause| failed(stored.name(), &cause))?;
            return Ok(Some(Searched::Here(stored.clone(), version)));
        }
        let Some(rows) = &source.definition.at_gateways else { return Ok(None) };
        let parts = with_pauses(&rows.name, reader, |pause| rows.parts(pause))?;
        Ok(Some(Searched::AtGateways(rows.clone(), parts)))
    }

    /// The store and its version, if it is one of this process.
    pub fn here(&self) -> Option<(&StoreReader, &Version)> {
        match self {
            Searched::Here(stored, version) => Some((stored.reader(), version)),
            Searched::AtGateways(..) => None,
        }
    }

    /// The view.
    pub fn name(&self) -> &str {
        match self {
            Searched::Here(stored, _) => stored.name(),
            Searched::AtGateways(rows, _) => &rows.name,
        }
    }

    pub fn config(&self) -> &StoreConfig {
        match self {
            Searched::Here(_, version) => version.config(),
            Searched::AtGateways(rows, _) => &rows.config,
        }
    }

    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.config().schema)
    }

    /// The expression that divides the rows among fragments.
    pub fn divider(&self) -> Option<&Expr> {
        match self {
            Searched::Here(stored, _) => stored.divider(),
            Searched::AtGateways(rows, _) => rows.divided_by.as_ref(),
        }
    }

    /// The cycles after which the rows are read, for people.
    pub fn as_of(&self) -> String {
        let as_of = |cycle: Option<u64>| match cycle {
            Some(cycle) => format!("as of cycle {cycle}"),
            None => "before the first cycle".to_owned(),
        };
        match self {
            Searched::Here(_, version) => as_of(version.cycle()),
            Searched::AtGateways(rows, parts) => {
                let part = |(gateway, part): (&Arc<tidemill_store::remote::Endpoint>, &RemoteVersion)| {
                    format!("{} {}", gateway.name(), as_of(part.cycle()))
                };
                rows.gateways.iter().zip(parts.iter()).map(part).collect::<Vec<_>>().join(", ")
            }
        }
    }

    /// The rows that meet these conditions.
    pub fn select(&self, selection: &Selection, reader: &mut Reader<'_>) -> Result<SelectedRows> {
        with_pauses(self.name(), reader, |pause| match self {
            Searched::Here(_, version) => version.select_with_pauses(selection, pause),
            Searched::AtGateways(rows, parts) => rows.select(parts, selection, pause),
        })
    }

    /// Rows among which are the nearest to a point.
    pub fn nearest(
        &self,
        to: (f64, f64),
        rows_max: usize,
        selection: &Selection,
        reader: &mut Reader<'_>,
    ) -> Result<SelectedRows> {
        with_pauses(self.name(), reader, |pause| match self {
            Searched::Here(_, version) => version.nearest_with_pauses(to, rows_max, selection, pause),
            Searched::AtGateways(rows, parts) => rows.nearest(parts, (to, rows_max), selection, pause),
        })
    }
}

/// What a search of a view finds. If its turn ends meanwhile, or it needs too much memory, that is the error.
fn with_pauses<T>(
    name: &str,
    reader: &mut Reader<'_>,
    search: impl FnOnce(&mut Pause<'_>) -> Result<T, Cause>,
) -> Result<T> {
    let (mut refused, mut is_too_much) = (None, None);
    let (before, rows) = (reader.memory.bytes(), format!("rows of view '{name}'"));
    let found = search(&mut |bytes| {
        reader.turn.go_on().inspect_err(|cause| refused = Some(cause.clone()))?;
        let more = (before + bytes as u64).saturating_sub(reader.memory.bytes());
        reader.memory.grow(&rows, more).inspect_err(|cause| is_too_much = Some(cause.clone()))
    });
    match (refused, is_too_much) {
        (Some(cause), _) => Err(turn_refused(cause)),
        (None, Some(cause)) => Err(limit_reached(cause)),
        (None, None) => found.map_err(|cause| failed(name, &cause)),
    }
}

fn failed(name: &str, cause: &Cause) -> DataFusionError {
    DataFusionError::External(format!("view '{name}': {cause}").into())
}
