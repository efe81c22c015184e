//! The exchange: parcels already know their worker, so distributing them is moving them.

use std::ops::Range;
use std::sync::Arc;

use timely::communication::Push;
use timely::dataflow::channels::Message;
use timely::dataflow::channels::pact::DistributorPact;
use timely::dataflow::channels::pushers::exchange::Distributor;

use crate::parcel::Parcels;
use crate::shared::Shared;
use crate::topology::Layout;

/// Moves each parcel to its target.
pub(crate) struct ByTarget {
    /// The workers of this process.
    own: Range<u32>,
    shared: Arc<Shared>,
}

impl Distributor<Parcels> for ByTarget {
    fn partition<T: Clone, P: Push<Message<T, Parcels>>>(
        &mut self,
        container: &mut Parcels,
        time: &T,
        pushers: &mut [P],
    ) {
        for mut parcel in container.0.drain(..) {
            let (target, is_own) = (parcel.target as usize, self.own.contains(&parcel.target));
            let messages = match is_own {
                true => vec![Parcels::new(vec![parcel])],
                false => {
                    self.shared.hold_sent(&mut parcel);
                    Parcels::messages(parcel)
                }
            };
            for mut parcels in messages {
                Message::push_at(&mut parcels, time.clone(), &mut pushers[target]);
            }
        }
    }

    fn flush<T: Clone, P: Push<Message<T, Parcels>>>(&mut self, _time: &T, _pushers: &mut [P]) {}
}

/// The contract of every edge.
pub(crate) fn by_target(
    layout: Layout,
    shared: &Arc<Shared>,
) -> DistributorPact<impl FnOnce(usize) -> ByTarget + use<>> {
    let (own, shared) = (layout.workers_of(layout.process as usize), Arc::clone(shared));
    DistributorPact(move |_peers| ByTarget { own, shared })
}
