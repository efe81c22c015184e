//! Joins with a table that changes against a map that follows it event by event.
#![allow(missing_docs)]

use std::collections::HashMap;

use crate::cycles::{DIVISIONS, Division, Event, batch, events, run, schema, show, show_events};
use proptest::prelude::*;
use tidemill_core::error::Fault;
use tidemill_core::{Batch, Cut, Operator, Output};
use tidemill_operators::join::JoinKind;
use tidemill_operators::table_join::{TableJoin, TableJoinSpec, output_schema};

fn spec(kind: JoinKind) -> TableJoinSpec {
    TableJoinSpec {
        stream: schema(),
        table: schema(),
        stream_keys: vec![1, 2],
        table_keys: vec![1, 2],
        kind,
        residual: None,
        rows_max: 1000,
    }
}

fn expected(events: &[Event], kind: JoinKind) -> Vec<String> {
    let show = |event: &Event| show_events(&[event]).remove(0);
    let mut table: HashMap<(i64, String), String> = HashMap::new();
    let mut rows = Vec::new();
    for event in events {
        let key = event.key.zip(event.name.clone());
        match (event.input, key) {
            (0, Some(key)) => drop(table.insert(key, show(event))),
            (0, None) => {}
            (_, key) => match key.and_then(|key| table.get(&key)) {
                Some(matched) => rows.push(format!("{}|{matched}", show(event))),
                None if kind == JoinKind::Left => rows.push(show(event) + "|NULL|NULL|NULL|NULL"),
                None => {}
            },
        }
    }
    rows
}

proptest! {
    #[test]
    fn each_row_sees_the_table_at_its_position(events in events(2, 80), is_left: bool) {
        let kind = if is_left { JoinKind::Left } else { JoinKind::Inner };
        let spec = spec(kind);
        let make = || Box::new(TableJoin::new(spec.clone()).unwrap()) as Box<dyn Operator>;
        for division in DIVISIONS {
            let rows = run(make, output_schema(&spec), &events, division).unwrap();
            prop_assert_eq!(rows.into_iter().map(|row| row.2).collect::<Vec<_>>(), expected(&events, kind));
        }
    }
}

fn event(input: usize, key: i64, value: i64) -> Event {
    Event { input, time: 0, key: Some(key), name: Some("a".into()), value: Some(value) }
}

#[test]
fn what_the_end_of_a_cycle_upserts_is_seen_by_all_rows_of_the_cycle() {
    let mut output = Output::new(&[output_schema(&spec(JoinKind::Inner))]);
    let mut join = TableJoin::new(spec(JoinKind::Inner)).unwrap();
    let rows = |event: Event, position| Batch::from_source(batch(&[&event]), vec![position].into());
    // An aggregate upserts key 7 at the end of two cycles, and key 8 in the first one only.
    let mut cycle = |upserts: &[Event], output: &mut Output| {
        output.begin_cycle(4);
        for upsert in upserts {
            join.rows(0, rows(upsert.clone(), 4).as_rows(), output).unwrap();
        }
        join.rows(1, rows(event(1, 7, 0), 0).as_rows(), output).unwrap();
        join.rows(1, rows(event(1, 8, 0), 3).as_rows(), output).unwrap();
        join.end_of_cycle(&Cut::first(), output).unwrap();
        let joined = show(&output.finish(0).unwrap().rows);
        joined.iter().map(|row| row.rsplit('|').next().unwrap().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(cycle(&[event(0, 7, 1), event(0, 8, 5)], &mut output), ["1", "5"]);
    assert_eq!(cycle(&[event(0, 7, 2)], &mut output), ["2", "5"]);
    assert_eq!(cycle(&[], &mut output), ["2", "5"]);
}

#[test]
fn a_table_without_a_key_has_one_row_for_all() {
    let spec = TableJoinSpec { stream_keys: vec![], table_keys: vec![], ..spec(JoinKind::Left) };
    let make = || Box::new(TableJoin::new(spec.clone()).unwrap()) as Box<dyn Operator>;
    let events = [event(1, 7, 0), event(0, 7, 1), event(1, 8, 0), event(0, 9, 2), event(1, 7, 0)];
    for division in DIVISIONS {
        let rows = run(make, output_schema(&spec), &events, division).unwrap();
        let values: Vec<_> = rows.iter().map(|row| row.2.rsplit('|').next().unwrap()).collect();
        assert_eq!(values, ["NULL", "1", "2"]);
    }
}

#[test]
fn a_row_at_the_end_of_a_cycle_sees_what_was_upserted_there() {
    let mut output = Output::new(&[output_schema(&spec(JoinKind::Inner))]);
    let mut join = TableJoin::new(spec(JoinKind::Inner)).unwrap();
    let rows = |event: Event| Batch::from_source(batch(&[&event]), vec![4].into());
    join.rows(0, rows(event(0, 7, 1)).as_rows(), &mut output).unwrap();
    join.rows(1, rows(event(1, 7, 0)).as_rows(), &mut output).unwrap();
    join.end_of_cycle(&Cut::first(), &mut output).unwrap();
    assert!(show(&output.finish(0).unwrap().rows)[0].ends_with("|7|a|1"));
}

#[test]
fn replaced_rows_are_given_up_and_too_many_keys_refused() {
    let mut spec = spec(JoinKind::Inner);
    spec.rows_max = 10;
    let make = || Box::new(TableJoin::new(spec.clone()).unwrap()) as Box<dyn Operator>;
    let rows: Vec<Event> = (0..20_000).map(|row| event(usize::from(row % 3 == 2), row % 10, row)).collect();
    let division = Division { cycle: 100, call: 100, restart_after: None };
    let joined = run(make, output_schema(&spec), &rows, division).unwrap();
    assert_eq!(joined.into_iter().map(|row| row.2).collect::<Vec<_>>(), expected(&rows, JoinKind::Inner));
    let keys: Vec<Event> = (0..11).map(|key| event(0, key, 0)).collect();
    let error = run(make, output_schema(&spec), &keys, division).unwrap_err();
    assert!(error.fault == Fault::Resource && error.message.contains("max_state_rows"), "{error}");
}
