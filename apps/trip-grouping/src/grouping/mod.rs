//! The trip grouping heuristic (III 3.3 and 4.1), a grouping cycle at a time.
//!
//! At the end of each grouping cycle, all requests made before are known. Those that expire before the next end get
//! shares now; they may take along any other request that waits. What nobody takes along stays until it expires itself.

mod arrival;
mod cheapest_first;
pub(crate) mod nearest;
pub(crate) mod queue;

use std::collections::{BTreeSet, VecDeque};

use queue::Queue;

use crate::criteria::{Criteria, Order};
use crate::request::Request;
use crate::share::Share;

/// What an end takes in its tree, about.
const END_BYTES: usize = 16;

/// Groups the requests that it is given. It has no clock: its caller says what time it is.
///
/// ```
/// use tidemill_trip_grouping::criteria::Criteria;
/// use tidemill_trip_grouping::grouping::Grouping;
/// use tidemill_trip_grouping::request::{Place, Request};
///
/// let place = |x_m| Place { x_m, y_m: 0.0 };
/// let request = |id, x_m| Request {
///     id, requested: 10 * id, expires: 600 + 10 * id, origin: place(x_m), destination: place(5000.0 + x_m),
/// };
/// let mut grouping = Grouping::new(Criteria::default());
/// grouping.add(request(1, 0.0));
/// grouping.add(request(2, 100.0));
/// // Both expire after 600, and before the end of the cycle after the one that ends at 600.
/// assert_eq!(grouping.next_end(), Some(600));
/// let mut shares = Vec::new();
/// grouping.advance(599, &mut shares);
/// assert!(shares.is_empty());
/// grouping.advance(600, &mut shares);
/// assert_eq!(shares[0].members.len(), 2);
/// assert_eq!(shares[0].savings(), 1.0 - (1.0 + 200.0 / 5000.0) / 2.0);
/// assert_eq!(grouping.next_end(), None);
/// ```
#[derive(Clone, Debug)]
pub struct Grouping {
    criteria: Criteria,
    /// The end of the last cycle that was grouped.
    last_end: Option<i64>,
    /// Requests that were added after the last cycle.
    added: Vec<Request>,
    /// Those of them that are in the order of arrival already, and not part of a cycle yet.
    arrived: VecDeque<Request>,
    /// All requests of past cycles that still wait.
    queue: Queue,
    /// The ends of cycles in which something expires, unless somebody takes it along before.
    ends: BTreeSet<i64>,
}

impl Grouping {
    /// Nobody waits yet. The criteria must be [valid](Criteria::check).
    pub fn new(criteria: Criteria) -> Self {
        Grouping {
            criteria,
            last_end: None,
            added: Vec::new(),
            arrived: VecDeque::new(),
            queue: Queue::default(),
            ends: BTreeSet::new(),
        }
    }

    /// Adds a [valid](Request::check) request, in any order within the cycles that are not grouped yet. One that was
    /// made earlier becomes part of the next cycle.
    pub fn add(&mut self, request: Request) {
        self.ends.insert(self.due(&request));
        self.added.push(request);
    }

    /// How many requests wait.
    pub fn len(&self) -> usize {
        self.added.len() + self.arrived.len() + self.queue.len()
    }

    /// About how many bytes of memory those who wait take.
    pub fn bytes(&self) -> usize {
        let waiting = (self.added.capacity() + self.arrived.capacity()) * size_of::<Request>();
        waiting + self.queue.bytes() + self.ends.len() * END_BYTES
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The end of the next cycle in which a request may expire: the time to call [`advance`](Self::advance).
    pub fn next_end(&self) -> Option<i64> {
        self.ends.first().copied()
    }

    /// Groups all cycles that end by now: no request from before `now` may follow. Appends their shares, cycle by cycle.
    pub fn advance(&mut self, now: i64, shares: &mut Vec<Share>) {
        while let Some(end) = self.ends.first().copied().filter(|end| *end <= now) {
            self.ends.pop_first();
            self.begin_cycle(end);
            self.last_end = Some(end);
            let expiring = self.queue.expiring(end.saturating_add(self.criteria.cycle));
            match self.criteria.order {
                Order::Arrival => arrival::group(&mut self.queue, &expiring, end, &self.criteria, shares),
                Order::CheapestFirst => {
                    cheapest_first::group(&mut self.queue, &expiring, end, &self.criteria, shares);
                }
            }
            self.queue.compact();
        }
        if self.is_empty() {
            self.ends.clear();
        }
    }

    /// The criteria that it follows.
    pub fn criteria(&self) -> &Criteria {
        &self.criteria
    }

    /// The end of the last cycle that was grouped.
    pub fn last_end(&self) -> Option<i64> {
        self.last_end
    }

    /// Everybody who waits, in no particular order.
    pub fn waiting(&self) -> impl Iterator<Item = &Request> {
        self.queue.requests().iter().chain(&self.arrived).chain(&self.added)
    }

    /// A grouping in the middle of a run, which has grouped up to `last_end` and has these requests still waiting.
    pub fn resume(
        criteria: Criteria,
        last_end: Option<i64>,
        waiting: impl IntoIterator<Item = Request>,
    ) -> Self {
        let mut grouping = Grouping { last_end, ..Grouping::new(criteria) };
        waiting.into_iter().for_each(|request| grouping.add(request));
        grouping
    }

    /// The end of the last cycle that may group a request: the first after it was made, such that it expires before
    /// the end after that.
    fn due(&self, request: &Request) -> i64 {
        let cycle = self.criteria.cycle;
        // The first multiple of the cycle that is larger.
        let after = |time: i64| (time.div_euclid(cycle) + 1).saturating_mul(cycle);
        let due = after(request.requested).max(after(request.expires) - cycle);
        match self.last_end {
            Some(last) if due <= last => last.saturating_add(cycle),
            _ => due,
        }
    }

    /// Moves the requests that were made before `end` into the queue.
    fn begin_cycle(&mut self, end: i64) {
        if !self.added.is_empty() {
            // Mostly they are in this order already, which the sort finds out at once.
            self.arrived.extend(self.added.drain(..));
            self.arrived.make_contiguous().sort_by(Request::by_arrival);
        }
        let count = self.arrived.partition_point(|request| request.requested < end);
        self.queue.extend(self.arrived.drain(..count));
    }
}
