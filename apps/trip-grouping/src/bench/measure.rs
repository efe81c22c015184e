//! Measures grouping without the engine, each group by itself.

use std::time::Duration;

use tidemill_energy::{Meter, Used};
use tidemill_engine::{Clock, ThreadTime};

use crate::criteria::Criteria;
use crate::grouping::Grouping;
use crate::hour_tally::HOUR_S;
use crate::partitioner::{PartitionerPlan, Partitioning};
use crate::request::Request;
use crate::savings::Savings;
use crate::share::Share;
use crate::tour::shortest_m;

/// One group that has all requests.
#[derive(Clone, Debug)]
pub struct Serial {
    /// Every n-th request was part of the load.
    pub every: usize,
    /// Processor time.
    pub time: Duration,
    /// The energy or the processor time of grouping.
    pub used: Used,
    /// What was saved.
    pub savings: Savings,
    /// The part of all distance that is saved if every ride takes its shortest tour.
    pub true_savings: f64,
    /// The part of the shares whose shortest tour is longer than the heuristic says.
    pub underestimated: f64,
}

/// A day in several groups.
#[derive(Clone, Debug)]
pub struct Measured {
    /// How requests were divided.
    pub partitioning: Partitioning,
    /// Into how many groups.
    pub groups: u32,
    /// Every n-th request was part of the load.
    pub every: usize,
    /// Processor time of the partitioner.
    pub partition_time: Duration,
    /// Processor time of each group.
    pub group_times: Vec<Duration>,
    /// The requests of the largest group, relative to an equal share of them.
    pub largest: f64,
    /// The same in the hour of the day with the most requests.
    pub largest_in_busiest_hour: f64,
    /// The energy or the processor time of the partitioner and of all groups.
    pub used: Used,
    /// What all groups saved.
    pub savings: Savings,
}

impl Measured {
    /// What a machine needs that works on all groups at the same time.
    pub fn time(&self) -> Duration {
        self.partition_time + self.group_times.iter().max().copied().unwrap_or_default()
    }

    /// The processor time of all groups together.
    pub fn total_time(&self) -> Duration {
        self.partition_time + self.group_times.iter().sum::<Duration>()
    }
}

/// Groups all requests in one group.
pub fn serial(every: usize, requests: &[Request], criteria: Criteria) -> Serial {
    let meter = Meter::start();
    let (time, shares) = group(requests, criteria);
    let used = meter.used();
    let (mut shortest, mut rides, mut underestimated) = (0.0, 0, 0);
    for share in &shares {
        let true_m = shortest_m(share);
        shortest += true_m;
        if share.members.len() > 1 {
            rides += 1;
            underestimated += u64::from(true_m > share.length_m() * (1.0 + 1e-9));
        }
    }
    let savings = sum(&shares);
    let true_savings = if savings.alone_m > 0.0 { 1.0 - shortest / savings.alone_m } else { 0.0 };
    let underestimated = underestimated as f64 / f64::from(rides.max(1));
    Serial { every, time, used, savings, true_savings, underestimated }
}

/// Divides requests into groups, and groups each by itself.
pub fn measure(
    partitioning: Partitioning,
    every: usize,
    requests: &[Request],
    plan: &PartitionerPlan,
    criteria: Criteria,
) -> Measured {
    let mut divided = vec![Vec::new(); plan.groups() as usize];
    let (meter, before_ns) = (Meter::start(), ThreadTime.now_ns());
    let mut partitioner = plan.start();
    for request in requests {
        divided[partitioner.group(request) as usize].push(*request);
    }
    let partition_time = Duration::from_nanos(ThreadTime.now_ns() - before_ns);
    let (of_day, of_hour) = (|_: &Request| true, busiest_hour(requests));
    let (largest, in_busiest_hour) =
        (largest(&divided, of_day), largest(&divided, |request| hour_of(request) == of_hour));
    let (mut group_times, mut of_groups) = (Vec::new(), Vec::new());
    for requests in &divided {
        let (time, shares) = group(requests, criteria);
        group_times.push(time);
        of_groups.push(shares);
    }
    let used = meter.used();
    let mut savings = Savings::default();
    of_groups.iter().for_each(|shares| savings.merge(&sum(shares)));
    Measured {
        partitioning,
        groups: plan.groups(),
        every,
        partition_time,
        group_times,
        largest,
        largest_in_busiest_hour: in_busiest_hour,
        used,
        savings,
    }
}

/// The largest group of these requests, relative to an equal share of them.
fn largest(divided: &[Vec<Request>], counts: impl Fn(&Request) -> bool) -> f64 {
    let sizes = divided.iter().map(|group| group.iter().filter(|request| counts(request)).count());
    let (all, most) = sizes.fold((0, 0), |(all, most), size| (all + size, most.max(size)));
    most as f64 * divided.len() as f64 / all.max(1) as f64
}

fn hour_of(request: &Request) -> i64 {
    request.requested.div_euclid(HOUR_S)
}

/// The hour with the most requests, which are in the order of their times.
fn busiest_hour(requests: &[Request]) -> i64 {
    let hours = requests.chunk_by(|a, b| hour_of(a) == hour_of(b));
    hours.max_by_key(|hour| hour.len()).and_then(|hour| hour.first()).map_or(0, hour_of)
}

/// Groups requests, a cycle after the other.
fn group(requests: &[Request], criteria: Criteria) -> (Duration, Vec<Share>) {
    let before_ns = ThreadTime.now_ns();
    let (mut grouping, mut shares) = (Grouping::new(criteria), Vec::new());
    requests.iter().for_each(|request| grouping.add(*request));
    grouping.advance(i64::MAX, &mut shares);
    (Duration::from_nanos(ThreadTime.now_ns() - before_ns), shares)
}

fn sum(shares: &[Share]) -> Savings {
    let mut savings = Savings::default();
    shares.iter().for_each(|share| savings.add(share));
    savings
}
