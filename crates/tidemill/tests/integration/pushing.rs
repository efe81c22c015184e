//! Pushing under way while something else happens: another thread pushes, the query is stopped, or what the program does
//! with the results blocks, fails or panics.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{sleep, spawn, yield_now};
use std::time::Duration;

use tidemill::engine::{FlowError, Limits};
use tidemill::{Cause, Engine, Error, Query, RowInput, RowSource, Run, rows_of};

type Numbers = RowSource<(u64,)>;

/// An engine whose queues are full after a few batches.
fn small() -> Engine {
    Engine::new().workers(2).limits(Limits {
        gateway_batches_max: 2,
        cycles_in_flight_max: 1,
        ..Limits::default()
    })
}

/// A query whose callback waits until the sender is dropped, and the number of rows that it has had.
fn blocked() -> (Run, RowInput<(u64,)>, Sender<()>, Arc<AtomicU64>) {
    let (release, released): (Sender<()>, Receiver<()>) = channel();
    let taken = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&taken);
    let mut query = Query::new("blocked");
    let numbers: Numbers = query.rows::<(u64,)>("numbers", "number");
    numbers.for_each_batch("blocks", move |rows| {
        let _ = released.recv();
        counted.fetch_add(rows.num_rows() as u64, Ordering::SeqCst);
        Ok(())
    });
    let run = small().start(query).unwrap();
    let input = run.input(&numbers).unwrap();
    (run, input, release, taken)
}

/// Pushes until the query takes nothing more; returns how many rows it took.
fn push_on(input: RowInput<(u64,)>, pushed: Arc<AtomicU64>) -> std::thread::JoinHandle<u64> {
    spawn(move || {
        for number in 0.. {
            match input.push([(number,)]) {
                Ok(()) => pushed.fetch_add(1, Ordering::SeqCst),
                Err(Error::Stopped) => return number,
                Err(error) => panic!("{error}"),
            };
        }
        unreachable!()
    })
}

/// Waits until no more rows get in: the last push waits for room.
fn until_full(pushed: &AtomicU64, run: &Run) {
    let mut before = u64::MAX;
    loop {
        sleep(Duration::from_millis(50));
        let now = pushed.load(Ordering::SeqCst);
        if now == before && now > 0 {
            return;
        }
        before = now;
        // It must answer although a push waits.
        run.status();
    }
}

#[test]
fn a_query_can_be_observed_and_stopped_while_a_push_waits() {
    let (run, input, release, taken) = blocked();
    let pushed = Arc::new(AtomicU64::new(0));
    let pushing = push_on(input.clone(), Arc::clone(&pushed));
    until_full(&pushed, &run);
    // The callback is still blocked: the waiting push must return although there is no room.
    let stopping = spawn(move || run.stop().unwrap());
    let accepted = pushing.join().unwrap();
    assert_eq!(input.push([(0,)]), Err(Error::Stopped));
    drop(release);
    let summary = stopping.join().unwrap();
    assert_eq!(taken.load(Ordering::SeqCst), accepted, "what was taken in is processed, and nothing else");
    assert_eq!(summary.engine.per_event.count(), accepted);
}

#[test]
fn an_end_waits_for_the_push_before_it_and_lets_no_later_one_in() {
    let (run, input, release, taken) = blocked();
    let pushed = Arc::new(AtomicU64::new(0));
    let pushing = push_on(input.clone(), Arc::clone(&pushed));
    until_full(&pushed, &run);
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    let finishing = spawn(move || {
        let summary = run.finish().unwrap();
        over.store(true, Ordering::SeqCst);
        summary
    });
    drop(release);
    let accepted = pushing.join().unwrap();
    finishing.join().unwrap();
    assert!(is_over.load(Ordering::SeqCst));
    assert_eq!(taken.load(Ordering::SeqCst), accepted);
}

#[test]
fn threads_that_push_at_once_lose_nothing_and_keep_their_own_order() {
    const ROWS: u64 = 2000;
    let mut query = Query::new("both");
    let numbers = query.rows::<(u64, u64)>("numbers", ["thread", "number"]);
    let collected = numbers.collect("all", 10_000);
    let run = small().start(query).unwrap();
    let threads: Vec<_> = (0..3)
        .map(|thread| {
            let input = run.input(&numbers).unwrap();
            spawn(move || {
                for number in 0..ROWS {
                    input.push([(thread, number)]).unwrap();
                    if number % 64 == 0 {
                        yield_now();
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    run.finish().unwrap();
    let rows = rows_of::<(u64, u64)>(&collected.read().unwrap(), ["thread", "number"]).unwrap();
    for thread in 0..3 {
        let own: Vec<u64> = rows.iter().filter(|row| row.0 == thread).map(|row| row.1).collect();
        assert_eq!(own, (0..ROWS).collect::<Vec<_>>());
    }
}

/// How a query ends whose callback does this with the third row.
fn ended_by(act: fn() -> Result<(), Cause>) -> (String, u64) {
    let seen = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&seen);
    let mut query = Query::new("fails");
    let numbers = query.rows::<(u64,)>("numbers", "number");
    numbers.for_each_batch("acts", move |rows| {
        for (number,) in rows_of::<(u64,)>(rows, "number").unwrap() {
            if number == 3 {
                act()?;
            }
            counted.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    });
    let run = small().start(query).unwrap();
    let input = run.input(&numbers).unwrap();
    let mut number = 0;
    while input.push([(number,)]).is_ok() {
        number += 1;
    }
    match run.finish() {
        Err(Error::Flow(FlowError::Failed(failure))) => (failure.to_string(), seen.load(Ordering::SeqCst)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_callback_that_panics_or_fails_stops_the_query_with_its_reason() {
    let (text, seen) = ended_by(|| panic!("no such drawer"));
    assert!(text.contains("acts") && text.contains("no such drawer"), "{text}");
    assert_eq!(seen, 3);
    let (text, seen) = ended_by(|| Err(Cause::operation("the drawer is stuck")));
    assert!(text.contains("acts") && text.contains("the drawer is stuck"), "{text}");
    assert_eq!(seen, 3);
}
