//! A source is fed with a journal and without one: the same chunks come to the gateway, with the same idle moments. What a
//! feed does at a given moment is stepped through here, on a clock that only the tests move.

mod script;

use std::time::Duration;

use proptest::prelude::*;
use script::{Event, Fed, IDLE_AFTER_MS, Script, fed_directly, fed_through_a_journal};

fn both(events: &[Event]) -> Vec<Fed> {
    let script = Script { events: events.to_vec(), push_takes: Duration::ZERO };
    let fed = fed_directly(&script);
    assert_eq!(fed, fed_through_a_journal(&script), "with a journal it is different");
    fed
}

fn rows(watermark: i64, events: u32) -> Fed {
    Fed { events, watermark, is_idle: false }
}

fn idle(watermark: i64) -> Fed {
    Fed { events: 0, watermark, is_idle: true }
}

#[test]
fn a_silent_source_is_idle_once_and_active_with_its_next_row() {
    let wait = || Event::Waits(IDLE_AFTER_MS);
    let fed = both(&[Event::Rows(vec![5]), wait(), wait(), Event::Rows(vec![7]), wait()]);
    assert_eq!(fed, [rows(5, 1), idle(5), rows(7, 1), idle(7)]);
}

#[test]
fn a_source_that_never_had_a_row_is_idle_as_well() {
    assert_eq!(both(&[Event::Waits(IDLE_AFTER_MS - 1), Event::Waits(1)]), [idle(i64::MIN)]);
}

#[test]
fn rows_that_may_not_come_in_do_not_keep_a_source_active() {
    // A sender whose clock is wrong would otherwise hold back all other sources for good.
    let refused = || Event::Refused(3);
    let half = || Event::Waits(IDLE_AFTER_MS / 2 + 1);
    let fed = both(&[Event::Rows(vec![5]), half(), refused(), half(), refused(), half(), refused()]);
    assert_eq!(fed, [rows(5, 1), idle(5)]);
}

#[test]
fn a_source_is_not_silent_while_its_rows_wait_for_the_query() {
    let script = Script {
        events: vec![Event::Rows(vec![5]), Event::Waits(1), Event::Rows(vec![6])],
        push_takes: Duration::from_millis(2 * IDLE_AFTER_MS),
    };
    let fed = fed_directly(&script);
    assert_eq!(fed, [rows(5, 1), rows(6, 1)], "its next rows would be late behind other sources");
    assert_eq!(fed, fed_through_a_journal(&script));
}

#[test]
fn time_that_a_closed_connection_lets_go_on_is_told_before_the_source_is_idle() {
    let wait = || Event::Waits(IDLE_AFTER_MS);
    let fed = both(&[
        Event::Of(1, 5),
        Event::Of(2, 50),
        // The second connection alone is at 50, once the first is closed.
        Event::Closes(1),
        wait(),
        wait(),
    ]);
    assert_eq!(fed, [rows(5, 1), rows(5, 1), rows(50, 0), idle(50)]);
}

#[test]
fn a_source_that_is_left_has_fed_all_its_rows_and_has_not_ended() {
    let fed = both(&[Event::Rows(vec![5]), Event::Rows(vec![7, 6]), Event::Leaves]);
    assert_eq!(fed, [rows(5, 1), rows(7, 2)]);
}

fn event() -> impl Strategy<Value = Event> {
    let connection = || 1u64..4;
    prop_oneof![
        3 => prop::collection::vec(0i64..100, 1..4).prop_map(Event::Rows),
        2 => (1usize..3).prop_map(Event::Refused),
        4 => (1u64..2 * IDLE_AFTER_MS).prop_map(Event::Waits),
        4 => (connection(), 0i64..100).prop_map(|(connection, time)| Event::Of(connection, time)),
        2 => connection().prop_map(Event::Closes),
        1 => connection().prop_map(Event::FallsSilent),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_source_is_fed_alike_with_and_without_a_journal(
        events in prop::collection::vec(event(), 1..30),
    ) {
        let script = Script { events, push_takes: Duration::ZERO };
        prop_assert_eq!(fed_directly(&script), fed_through_a_journal(&script));
    }
}
