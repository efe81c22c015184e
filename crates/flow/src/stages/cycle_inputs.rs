//! Collects what has arrived at a stage, by cycle and input, until the cycle is complete.

use std::collections::BTreeMap;
use std::sync::Arc;

use timely::progress::frontier::MutableAntichain;

use super::StageContext;
use crate::run_state::RunState;
use crate::stages::cycles_in_flight::{CycleInFlight, CyclesInFlight};
use crate::transport::bulk_channels::BulkChannels;
use crate::transport::parcel::Parcel;
use crate::transport::parcels::Parcels;

/// Collects parcels; returns whole cycles, in order.
pub(crate) struct CycleInputs {
    inputs: usize,
    pending: BTreeMap<u64, Vec<Vec<Parcel>>>,
    next_cycle: u64,
    cycles: CyclesInFlight,
    run_state: Arc<RunState>,
    bulk: Arc<BulkChannels>,
}

impl CycleInputs {
    pub fn new(inputs: usize, context: &StageContext<'_>) -> Self {
        let (run_state, bulk) = (Arc::clone(context.run_state), Arc::clone(context.bulk));
        let (cycles, next_cycle) = (context.cycles.clone(), run_state.first_cycle);
        CycleInputs { inputs, pending: BTreeMap::new(), next_cycle, cycles, run_state, bulk }
    }

    pub fn receive(&mut self, input: usize, cycle: u64, parcels: Parcels) {
        let inputs = self.inputs;
        let pending = self.pending.entry(cycle).or_insert_with(|| vec![Vec::new(); inputs]);
        match parcels.arrived(&self.bulk) {
            Ok(parcels) => pending[input].extend(parcels),
            Err(failure) => self.run_state.fail(failure),
        }
    }

    /// The next cycle, if all frontiers have passed it and the query continues.
    pub fn next_complete(&mut self, complete_below: Option<u64>) -> Option<CycleInFlight> {
        let is_complete = |cycle| complete_below.is_none_or(|frontier| cycle < frontier);
        if !is_complete(self.next_cycle) || self.run_state.is_stopped() {
            return None;
        }
        // Numbers may be left out: the next cycle is the first one from there on.
        let next = self.cycles.first_from(self.next_cycle)?;
        if !is_complete(next.cut.cycle) {
            return None;
        }
        self.next_cycle = next.cut.cycle;
        Some(next)
    }

    /// The number of the next cycle.
    pub fn next_cycle(&self) -> u64 {
        self.next_cycle
    }

    /// The next cycle's parcels, by input.
    pub fn take(&mut self) -> Vec<Vec<Parcel>> {
        self.pending.remove(&self.next_cycle).unwrap_or_else(|| vec![Vec::new(); self.inputs])
    }

    /// The next cycle is done.
    pub fn advance(&mut self) {
        self.next_cycle += 1;
    }
}

/// All cycles below this number are complete at every input; `None`: all cycles are.
pub(crate) fn complete_below(frontiers: &[MutableAntichain<u64>]) -> Option<u64> {
    frontiers.iter().filter_map(|input| input.frontier().first().copied()).min()
}
