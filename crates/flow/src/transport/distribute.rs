//! The exchange. Parcels already know their worker, so distributing them means moving them. Long ones reach other
//! processes over a bulk channel.

use std::sync::Arc;

use timely::communication::Push;
use timely::dataflow::channels::Message;
use timely::dataflow::channels::pact::DistributorPact;
use timely::dataflow::channels::pushers::exchange::Distributor;

use crate::run_state::RunState;
use crate::topology::Layout;
use crate::transport::bulk_channels::BulkChannels;
use crate::transport::parcel::Parcel;
use crate::transport::parcels::Parcels;

/// Moves each parcel to its target.
pub(crate) struct ByTarget {
    layout: Layout,
    run_state: Arc<RunState>,
    bulk: Arc<BulkChannels>,
}

impl Distributor<Parcels> for ByTarget {
    fn partition<T: Clone, P: Push<Message<T, Parcels>>>(
        &mut self,
        container: &mut Parcels,
        time: &T,
        pushers: &mut [P],
    ) {
        for parcel in container.0.drain(..) {
            let target = parcel.target as usize;
            // One parcel each: Timely counts them on both sides.
            let mut parcels = self.on_its_way(parcel);
            Message::push_at(&mut parcels, time.clone(), &mut pushers[target]);
        }
    }

    fn flush<T: Clone, P: Push<Message<T, Parcels>>>(&mut self, _time: &T, _pushers: &mut [P]) {}
}

impl ByTarget {
    fn on_its_way(&self, mut parcel: Parcel) -> Parcels {
        let process = self.layout.process_of(parcel.target);
        if process == self.layout.process as usize {
            return Parcels::new(vec![parcel]);
        }
        parcel.hold(&self.run_state.credit);
        Parcels::new(vec![parcel]).sent(process, &self.bulk)
    }
}

/// The contract of every edge.
pub(crate) fn by_target(
    layout: Layout,
    run_state: &Arc<RunState>,
    bulk: &Arc<BulkChannels>,
) -> DistributorPact<impl FnOnce(usize) -> ByTarget + use<>> {
    let (run_state, bulk) = (Arc::clone(run_state), Arc::clone(bulk));
    DistributorPact(move |_peers| ByTarget { layout, run_state, bulk })
}

#[cfg(test)]
mod tests {
    use timely::Accountable;
    use timely::dataflow::channels::ContainerBytes;

    use super::*;
    use crate::transport::wire::samples::{columns, parcel};

    /// Keeps what is sent to one worker.
    #[derive(Default)]
    struct Sent(Vec<Message<u64, Parcels>>);

    impl Push<Message<u64, Parcels>> for Sent {
        fn push(&mut self, message: &mut Option<Message<u64, Parcels>>) {
            self.0.extend(message.take());
        }
    }

    #[test]
    fn every_worker_is_sent_its_parcels_and_as_many_as_there_were() {
        let layout = Layout { workers: 2, processes: 3, process: 1 };
        let run_state = RunState::idle(layout);
        let bulk = BulkChannels::of_run(&run_state);
        let mut exchange = ByTarget { layout, run_state: Arc::clone(&run_state), bulk: Arc::clone(&bulk) };
        let mut workers: Vec<Sent> = (0..6).map(|_| Sent::default()).collect();
        let (short, long, longest) =
            (columns(10, &[1], 0), columns(9000, &[1, 2], 0), columns(90_000, &[1, 6], 0));
        let sent =
            [(0, &long), (1, &short), (2, &longest), (3, &short), (4, &long), (5, &longest), (4, &long)];
        let parcels = sent.map(|(target, rows)| Parcel { target, ..parcel(rows.clone()) });
        let bytes = |target: &Parcel| target.rows.batch.bytes() as i64;
        let outgoing: i64 = parcels.iter().filter(|parcel| !(2..4).contains(&parcel.target)).map(bytes).sum();
        let mut container = Parcels::new(parcels.to_vec());
        let counted = container.record_count();
        exchange.partition(&mut container, &7, &mut workers);
        let messages = || workers.iter().flat_map(|worker| &worker.0);
        assert!(messages().all(|message| message.time == 7));
        assert_eq!(messages().map(|message| message.data.record_count()).sum::<i64>(), counted);
        assert_eq!(run_state.credit.held_bytes(), outgoing, "what leaves the process is held");
        let here = |worker: usize| {
            workers[worker].0.iter().flat_map(|message| &message.data.0).map(|parcel| parcel.target).collect()
        };
        let found: [Vec<u32>; 6] = std::array::from_fn(here);
        assert_eq!(
            found,
            [vec![], vec![1], vec![2], vec![3], vec![], vec![]],
            "without those in bulk channels"
        );
        let tickets = [0, 4, 5].map(|worker: usize| {
            workers[worker].0.iter().filter(|message| message.data.length_in_bytes() == 24).count()
        });
        assert_eq!(tickets, [1, 2, 1]);
        assert_eq!([0, 1, 2].map(|process| bulk.of(process).take_outgoing().len()), [1, 0, 3]);
    }
}
