//! Response times of periodic tasks under preemptive fixed priorities, from the literature.

use super::fixed_point::{NoBound, least_fixed_point};
use super::{Demand, Interference, Processors};

/// A task that is released once in a period, and should be done within its deadline, which is not longer than the period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeriodicTask {
    /// The task as those below it see it: period, cost, jitter.
    pub work: Interference,
    /// Within which time of its release it should be done.
    pub deadline_ns: u64,
    /// The processor to which it is pinned; only where processors are partitioned.
    pub processor: usize,
}

/// The response time of a task on one processor, below `higher`: Joseph and Pandya (1986), Audsley and others (1993).
///
/// The response counts from the moment at which the task is due, so its own jitter is included.
///
/// # Errors
/// If there is no bound.
pub fn single_response_ns(task: &PeriodicTask, higher: &[Interference]) -> Result<u64, NoBound> {
    let processors = Processors::one().below(higher.iter().cloned());
    let demand = Demand { total_ns: task.work.cost_ns, path_ns: task.work.cost_ns };
    let done_ns = processors.completion_ns(task.work.cost_ns, |_| demand)?;
    Ok(done_ns.saturating_add(task.work.jitter_ns))
}

/// The response times of tasks that are pinned to processors, in the order of their priorities, highest first: each is
/// interrupted by those before it on its own processor only.
///
/// # Errors
/// If there is no bound for one of them.
pub fn partitioned_response_ns(tasks: &[PeriodicTask]) -> Result<Vec<u64>, NoBound> {
    let response = |(index, task): (usize, &PeriodicTask)| {
        let beside = tasks[..index].iter().filter(|other| other.processor == task.processor);
        let higher: Vec<_> = beside.map(|other| other.work.clone()).collect();
        single_response_ns(task, &higher)
    };
    tasks.iter().enumerate().map(response).collect()
}

/// The response times of tasks that migrate over `processors`, in the order of their priorities, highest first: Bertogna
/// and Cirinei (RTSS 2007), `R = C + sum of min(W(R), R - C + 1) / m`, rounded down.
///
/// Valid only while each keeps its deadline, which the caller compares: a task whose bound is above its deadline makes those
/// below it meaningless, so the list ends with it.
///
/// # Errors
/// If there is no bound for one of them.
pub fn global_response_ns(tasks: &[PeriodicTask], processors: u64) -> Result<Vec<u64>, NoBound> {
    let mut responses = Vec::with_capacity(tasks.len());
    let mut higher: Vec<Interference> = Vec::new();
    for task in tasks {
        let cost_ns = task.work.cost_ns;
        let response_ns = least_fixed_point(cost_ns, |window_ns| {
            // More of it than this would run beside the task, not instead of it.
            let most_ns = window_ns.saturating_sub(cost_ns).saturating_add(1);
            let interference_ns = higher
                .iter()
                .map(|other| other.carried_within(window_ns).min(most_ns))
                .fold(0, u64::saturating_add);
            cost_ns.saturating_add(interference_ns / processors.max(1))
        })?;
        let response_ns = response_ns.saturating_add(task.work.jitter_ns);
        responses.push(response_ns);
        if response_ns > task.deadline_ns {
            break;
        }
        // It has ended by its bound, which is sooner than by its deadline.
        higher.push(Interference { deadline_ns: response_ns, ..task.work.clone() });
    }
    Ok(responses)
}
