//! The exchange: parcels already know their worker, so distributing them is moving them.

use timely::communication::Push;
use timely::dataflow::channels::Message;
use timely::dataflow::channels::pact::DistributorPact;
use timely::dataflow::channels::pushers::exchange::Distributor;

use crate::parcel::Parcels;

/// Moves each parcel to its target.
pub(crate) struct ByTarget;

impl Distributor<Parcels> for ByTarget {
    fn partition<T: Clone, P: Push<Message<T, Parcels>>>(
        &mut self,
        container: &mut Parcels,
        time: &T,
        pushers: &mut [P],
    ) {
        for parcel in container.0.drain(..) {
            let target = parcel.target as usize;
            Message::push_at(&mut Parcels(vec![parcel]), time.clone(), &mut pushers[target]);
        }
    }

    fn flush<T: Clone, P: Push<Message<T, Parcels>>>(&mut self, _time: &T, _pushers: &mut [P]) {}
}

/// The contract of every edge.
pub(crate) fn by_target() -> DistributorPact<fn(usize) -> ByTarget> {
    DistributorPact(|_peers| ByTarget)
}
