//! Processes run where they are told to, and no result depends on it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::fixture::forward::{Forward, operator};
use crate::fixture::sink::{Given, Remember};
use crate::fixture::{chunk, numbered, schema, watched};
use proptest::prelude::*;
use tidemill_engine::{
    Cause, CyclePolicy, Engine, FlowError, Operator, Output, PlaceChoice, PlaceGroup, PlaceMember, Plan,
    PlanError, Rows, SnapshotReader, SnapshotWriter, StreamProcessPlan, places_of,
};

/// The names of the threads that called each operator.
type Threads = Arc<Mutex<BTreeMap<String, BTreeSet<String>>>>;

/// Forwards, and notes which thread it is called by.
struct Noted {
    name: String,
    forward: Forward,
    threads: Threads,
}

impl Operator for Noted {
    fn rows(&mut self, input: usize, rows: Rows<'_>, output: &mut Output) -> Result<(), Cause> {
        let thread = std::thread::current().name().unwrap_or_default().to_string();
        self.threads.lock().entry(self.name.clone()).or_default().insert(thread);
        self.forward.rows(input, rows, output)
    }
    fn snapshot(&self, writer: &mut SnapshotWriter) {
        self.forward.snapshot(writer);
    }
    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        self.forward.restore(reader)
    }
}

/// Source -> an operator for each of these processes, one behind the other, `None`: part of none -> sink.
fn plan(processes: &[Option<StreamProcessPlan>], threads: &Threads) -> Plan {
    let mut plan = Plan::new("places");
    let mut stream = plan.source("input", [schema()])[0];
    for (number, process) in processes.iter().enumerate() {
        let (name, threads) = (format!("operator {number}"), Arc::clone(threads));
        let noted = name.clone();
        let operator = operator(&name, stream, move |_| {
            let (name, threads) = (noted.clone(), Arc::clone(&threads));
            Box::new(Noted { name, forward: Forward::default(), threads })
        });
        let operator = match process {
            Some(process) => {
                let number = plan.stream_process(process.clone());
                operator.stream_process(number)
            }
            None => operator,
        };
        stream = plan.operator(operator)[0];
    }
    plan.sink("output", [stream]);
    plan
}

type Ran = (Vec<Given>, BTreeMap<String, BTreeSet<String>>);

fn run(processes: &[Option<StreamProcessPlan>], workers: usize) -> Result<Ran, FlowError> {
    let threads = Threads::default();
    let plan = plan(processes, &threads);
    watched("processes", move || {
        let sink = Remember::default();
        let engine = Engine::new().workers(workers).cycles(CyclePolicy::fixed(300));
        let mut running = engine.run(plan, sink.boxed())?;
        let gateway = running.gateway(0).unwrap();
        gateway.push(chunk(&numbered(0..3000))).unwrap();
        drop(gateway);
        running.join()?;
        let threads = threads.lock().clone();
        Ok((sink.given(), threads))
    })
}

fn at(place: u32) -> Option<StreamProcessPlan> {
    Some(StreamProcessPlan::new(format!("at {place}")).at(vec![PlaceChoice::Place(place)]))
}

fn group(name: &str, places: &[u32]) -> PlaceGroup {
    PlaceGroup { name: name.into(), members: places.iter().map(|place| PlaceMember::Place(*place)).collect() }
}

#[test]
fn all_partitions_of_a_process_are_held_by_the_worker_that_is_its_place() {
    let (_, threads) = run(&[at(3), None, at(1), at(3)], 4).unwrap();
    let worker = |number: u32| BTreeSet::from([format!("timely:work-{number}")]);
    assert_eq!(threads["operator 0"], worker(3));
    assert_eq!(threads["operator 2"], worker(1));
    assert_eq!(threads["operator 3"], worker(3));
    assert_eq!(threads["operator 1"].len(), 4, "what is in no process is everywhere");
}

#[test]
fn results_do_not_depend_on_places() {
    let anywhere = || Some(StreamProcessPlan::new("anywhere"));
    let prefers = |place| Some(StreamProcessPlan::new("prefers").prefer(vec![PlaceChoice::Place(place)]));
    let placed = [vec![None, None, None], vec![at(0), at(0), None], vec![anywhere(), prefers(4), prefers(1)]];
    let mut first = None;
    for processes in placed {
        for workers in [1, 2, 5] {
            let (given, _) = run(&processes, workers).unwrap();
            let first = first.get_or_insert_with(|| given.clone());
            assert!(given == *first, "{processes:?} at {workers} workers: other output");
        }
    }
}

#[test]
fn a_required_place_that_is_not_there_is_an_error_and_a_preferred_one_is_not() {
    let required = match run(&[at(2)], 2) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("it ran where there is no place"),
    };
    assert!(required.contains("process 'at 2' must run at 2, but the workers are 0 to 1"), "{required}");
    let preferred = StreamProcessPlan::new("preferred").prefer(vec![PlaceChoice::Place(2)]);
    assert_eq!(places_of(&[preferred], 2).unwrap(), [0]);
    let mut unknown = Plan::new("unknown");
    let input = unknown.source("input", [schema()]);
    let part = operator("part", input[0], |_| Box::new(Forward::default())).stream_process(1);
    let output = unknown.operator(part);
    unknown.sink("output", output);
    let error = unknown.validate().unwrap_err();
    assert_eq!(error, PlanError::NoSuchStreamProcess { operator: "part".into(), process: 1, processes: 0 });
}

#[test]
fn a_sequence_of_places_is_followed_as_it_is_written() {
    let (first, second) = (group("first", &[0, 1]), group("second", &[2, 3, 9]));
    let both = PlaceGroup {
        name: "both".into(),
        members: vec![PlaceMember::Group(first.clone()), PlaceMember::Group(second.clone())],
    };
    let places = |choices: &[&PlaceChoice]| {
        let process = |choice: &&PlaceChoice| StreamProcessPlan::new("p").at(vec![(*choice).clone()]);
        places_of(&choices.iter().map(process).collect::<Vec<_>>(), 5).unwrap()
    };
    let (next, any) = (PlaceChoice::NextOf(second.clone()), PlaceChoice::AnyOf(second.clone()));
    let (each, two) = (PlaceChoice::EachOf(both), PlaceChoice::Place(2));
    // In turn, whatever else is there; 9 is not.
    assert_eq!(places(&[&next, &two, &next, &next]), [2, 2, 3, 2]);
    // The one with the fewest.
    assert_eq!(places(&[&two, &any, &any, &any]), [2, 3, 2, 3]);
    // One group after the other, and within it the one with the fewest.
    assert_eq!(places(&[&each, &each, &each, &each, &each]), [0, 2, 1, 3, 0]);
    // The first of a list that is there.
    let list = StreamProcessPlan::new("list").at(vec![PlaceChoice::Place(7), PlaceChoice::NextOf(first)]);
    assert_eq!(places_of(&[list], 5).unwrap(), [0]);
}

fn choice() -> impl Strategy<Value = PlaceChoice> {
    let group = || prop::collection::vec(0..8_u32, 1..4).prop_map(|places| group("group", &places));
    prop_oneof![
        (0..8_u32).prop_map(PlaceChoice::Place),
        group().prop_map(PlaceChoice::AnyOf),
        group().prop_map(PlaceChoice::NextOf),
        group().prop_map(PlaceChoice::EachOf),
    ]
}

proptest! {
    #[test]
    fn a_process_is_where_it_may_be(
        choices in prop::collection::vec((prop::collection::vec(choice(), 0..3), any::<bool>()), 1..12),
        workers in 1..8_u32,
    ) {
        let allowed = |choices: &[PlaceChoice]| {
            let places = choices.iter().map(|choice| match choice {
                PlaceChoice::Place(place) => vec![*place],
                PlaceChoice::AnyOf(group) | PlaceChoice::NextOf(group) | PlaceChoice::EachOf(group) => group.places(),
            });
            let mut here = places.map(|mut places| { places.retain(|place| *place < workers); places });
            here.find(|places| !places.is_empty())
        };
        let processes: Vec<StreamProcessPlan> = choices
            .iter()
            .map(|(places, required)| {
                let (name, places) = ("p".into(), places.clone());
                StreamProcessPlan { name, places, required: *required }
            })
            .collect();
        let impossible = processes.iter().any(|process| process.required && allowed(&process.places).is_none());
        match places_of(&processes, workers) {
            Err(_) => prop_assert!(impossible),
            Ok(places) => {
                prop_assert!(!impossible);
                for (process, place) in processes.iter().zip(&places) {
                    let may = allowed(&process.places).unwrap_or_else(|| (0..workers).collect());
                    prop_assert!(may.contains(place), "{process:?} at {place}");
                }
                prop_assert_eq!(places_of(&processes, workers).unwrap(), places);
            }
        }
    }
}
