//! The numbers of the paper (Mei, Gray, Wellings: Real-Time Stream Processing in Java), and what follows from it.

use tidemill_realtime::analysis::{
    Admission, Arrivals, Completion, DeferrableServer, Interference, NoBound, PeriodicTask, Processors,
    Refusal, Release, Stream, admit, elements_within, global_response_ns, latency_bound, papers_bound,
    partitioned_response_ns, single_response_ns, spaced_bound,
};

const MS: u64 = 1_000_000;

fn release(interval_ms: u64, buffer_max: u64) -> Release {
    Release { interval_ns: interval_ms * MS, buffer_max }
}

/// The bound in milliseconds on one processor.
fn bound_ms(stream: &Stream, release: Release) -> u64 {
    let bound = latency_bound(stream, &release, &Processors::one()).unwrap();
    assert_eq!(bound.latency_ns % MS, 0);
    bound.latency_ns / MS
}

/// Stream of Table 2: one event at a time.
fn stream(gap_ms: u64) -> Stream {
    Stream::new(Arrivals::spaced(gap_ms * MS), 28 * MS)
}

/// T1, T2 and T3 of Table 1.
fn periodic_threads() -> [Interference; 3] {
    [("T1", 100), ("T2", 200), ("T3", 400)]
        .map(|(name, period)| Interference::periodic(name, period * MS, 28 * MS))
}

#[test]
fn four_at_once_after_ten_of_an_interval_are_late() {
    assert_eq!(papers_bound(90 * MS, 4, 28 * MS), 202 * MS);
}

#[test]
fn the_longest_interval_for_bursts_of_four_is_38() {
    let bursts = Stream::new(Arrivals::bursts_up_to(4, 200 * MS), 28 * MS);
    assert_eq!([38, 39].map(|interval_ms| bound_ms(&bursts, release(interval_ms, 1024))), [150, 151]);
    // The paper takes either a shorter interval or a buffer. With both, four are released at once, and three may wait for 66.
    let Admission { release, bound } = admit(&bursts, &Processors::one(), 150 * MS).unwrap();
    assert_eq!((release.interval_ns, release.buffer_max, bound.latency_ns), (66 * MS, 4, 150 * MS));
}

#[test]
fn bursts_of_exactly_four_fill_a_buffer_of_four_at_once() {
    let at_most = Stream::new(Arrivals::bursts_up_to(4, 200 * MS), 28 * MS);
    let exactly = Stream::new(Arrivals::bursts_of(4, 200 * MS), 28 * MS);
    assert_eq!(bound_ms(&at_most, release(100, 1024)), 212);
    // Three may wait.
    assert_eq!(bound_ms(&at_most, release(100, 4)), 184);
    assert_eq!(bound_ms(&exactly, release(100, 4)), 112);
    let admitted = admit(&exactly, &Processors::one(), 150 * MS).unwrap();
    assert_eq!((admitted.release.buffer_max, admitted.bound.latency_ns), (4, 112 * MS));
}

#[test]
fn the_deadline_gives_the_number_of_events() {
    let cases = [(100, 28, 150), (10, 34, 60), (38, 28, 150)];
    let events =
        cases.map(|(interval, cost, deadline)| elements_within(deadline * MS, interval * MS, cost * MS));
    assert_eq!(events, [1, 1, 4]);
}

#[test]
fn streams_m_and_h() {
    assert_eq!(bound_ms(&stream(100), release(100, 1024)), 128);
    assert_eq!(papers_bound(100 * MS, Arrivals::spaced(50 * MS).most_within(100 * MS), 28 * MS), 156 * MS);
    assert_eq!(spaced_bound(100 * MS, 50 * MS, 28 * MS, 2), 128 * MS);
    // Where each event has its answer by itself, the bound is that of events a minimum gap apart; where a batch is
    // answered as a whole, who waits longest waits for all of it.
    assert_eq!(bound_ms(&stream(50).completion(Completion::Event), release(100, 1024)), 128);
    assert_eq!(bound_ms(&stream(50), release(100, 1024)), 156);
}

#[test]
fn stream_o_overloads_one_processor_and_not_two() {
    let overload = stream(20);
    let refused = admit(&overload, &Processors::one(), 150 * MS);
    let percent = Refusal::Overload { events_percent: 140, others_percent: 0, available_percent: 100 };
    assert_eq!(refused, Err(percent));
    let admitted = admit(&overload, &Processors::equal(2), 150 * MS).unwrap();
    assert!(admitted.bound.latency_ns <= 150 * MS && admitted.release.interval_ns >= 20 * MS);
}

#[test]
fn the_intervals_of_the_first_experiment() {
    let first = Stream::new(Arrivals::spaced(200 * MS), 34 * MS);
    let bounds = [10, 20, 40, 60].map(|interval_ms| bound_ms(&first, release(interval_ms, 1024)));
    assert_eq!(bounds, [44, 54, 74, 94]);
}

#[test]
fn below_the_periodic_threads_the_first_experiment_is_late() {
    let first = Stream::new(Arrivals::spaced(200 * MS), 34 * MS);
    let below = Processors::one().below(periodic_threads());
    // 34 + 2 * 28 + 28 + 28.
    let bound = latency_bound(&first, &release(10, 1024), &below).unwrap();
    assert_eq!(bound.latency_ns, 156 * MS);
    let shares = ["T1", "T2", "T3"].map(str::to_owned).into_iter().zip([56 * MS, 28 * MS, 28 * MS]);
    assert_eq!(bound.interference_ns, shares.collect::<Vec<_>>());
    assert_eq!((bound.wait_ns, bound.events, bound.events_ns, bound.shared_ns), (10 * MS, 1, 34 * MS, 0));
    let refused = admit(&first, &below, 60 * MS).unwrap_err();
    assert_eq!(
        refused,
        Refusal::TooLate {
            deadline_ns: 60 * MS,
            latency_ns: 146 * MS,
            term: "'T1', which has a higher priority,".into(),
            term_ns: 56 * MS
        }
    );
}

#[test]
fn a_budget_above_the_periodic_threads_keeps_their_deadlines() {
    let server = DeferrableServer { capacity_ns: 20 * MS, period_ns: 100 * MS };
    let task =
        |work: &Interference| PeriodicTask { deadline_ns: work.period_ns, work: work.clone(), processor: 2 };
    let threads = periodic_threads();
    let response_ms = |above: Vec<Interference>| {
        let mut responses = Vec::new();
        for (index, thread) in threads.iter().enumerate() {
            let higher: Vec<_> = above.iter().chain(&threads[..index]).cloned().collect();
            responses.push(single_response_ns(&task(thread), &higher).map(|response_ns| response_ns / MS));
        }
        responses
    };
    assert_eq!(response_ms(vec![]), [Ok(28), Ok(56), Ok(84)]);
    // 28 + 2 * 20, as the window of 68 holds the end of one budget and the whole of the next.
    assert_eq!(response_ms(vec![server.interference("pool")]), [Ok(68), Ok(96), Ok(172)]);
    // Stream O without a budget takes the whole processor.
    let unbounded = Interference::periodic("O", 20 * MS, 28 * MS);
    assert_eq!(response_ms(vec![unbounded]), [Err(NoBound); 3]);
}

#[test]
fn pinned_tasks_meet_only_those_on_their_processor() {
    let task = |name: &str, period, cost, processor| {
        let work = Interference::periodic(name, period, cost);
        PeriodicTask { deadline_ns: period, work, processor }
    };
    let tasks = [task("a", 10, 4, 0), task("b", 10, 4, 1), task("c", 20, 5, 0), task("d", 20, 7, 1)];
    assert_eq!(partitioned_response_ns(&tasks), Ok(vec![4, 4, 9, 15]));
    // Over both processors: 4; 4 + 1 / 2; 5 + (4 + 4) / 2 and so on.
    let migrating = global_response_ns(&tasks, 2).unwrap();
    assert_eq!(migrating[..2], [4, 4]);
    assert!(migrating.iter().zip(&tasks).all(|(response, task)| *response <= task.deadline_ns));
    // On one processor of two nothing is won by the second; a third task of the whole processor is late.
    let late = [task("a", 10, 10, 0), task("b", 10, 10, 0), task("c", 10, 10, 0)];
    assert!(
        global_response_ns(&late, 2).is_err() || global_response_ns(&late, 2).unwrap().last() > Some(&10)
    );
}

#[test]
fn extreme_numbers_are_refused_and_never_wrap() {
    let most = u64::MAX;
    for (gap, cost, burst) in [(1, most, 1), (most, most, most), (1, 1, most), (most, 1, most)] {
        let stream = Stream::new(Arrivals::bursts_up_to(burst, gap), cost).batch_cost(most);
        let processors =
            Processors::one().below([Interference::periodic("all", most, most).with_jitter(most)]);
        assert_eq!(
            latency_bound(&stream, &Release { interval_ns: most, buffer_max: most }, &processors),
            Err(NoBound)
        );
        assert!(admit(&stream, &processors, most).is_err());
        assert!(admit(&stream, &processors, 0).is_err());
    }
}
