//! Transforms: what they may do, where they may stand, and what happens when one is wrong. Random plans with
//! transforms are in `determinism.rs`.

use crate::fixture::forward::{Forward, operator};
use crate::fixture::reshape::{Reshape, plan_of};
use crate::fixture::sink::{Given, Remember};
use crate::fixture::{COLUMNS, Row, batch, chunk, numbered, rows_of, schema, watched};
use tidemill_engine::arrow::array::RecordBatch;
use tidemill_engine::arrow::array::types::UInt32Type;
use tidemill_engine::{
    Cause, Cut, CyclePolicy, Engine, Failure, FlowError, OperatorPlan, Output, Plan, PlanError, Rows, Sink,
    SnapshotReader, SnapshotWriter, StreamRef, Summary, Transform, TransformPlan, Transformed, route_by_key,
};

/// Pushes numbered rows through a plan of one source and gives what each sink was given.
fn run(plan: &Plan, events: u32, workers: usize, cycle: u32) -> (Vec<Vec<Given>>, Summary) {
    let plan = plan.clone();
    watched("a plan with transforms", move || {
        let sinks: Vec<Remember> = plan.sinks.iter().map(|_| Remember::default()).collect();
        let boxed = sinks.iter().map(|sink| Box::new(sink.clone()) as Box<dyn Sink>).collect();
        let cycles = CyclePolicy::fixed(cycle);
        let mut running = Engine::new().workers(workers).cycles(cycles).run(plan, boxed).unwrap();
        let gateway = running.gateway(0).unwrap();
        numbered(0..events).chunks(97).for_each(|rows| gateway.push(chunk(rows)).unwrap());
        drop(gateway);
        let summary = running.join().unwrap();
        (sinks.iter().map(Remember::given).collect(), summary)
    })
}

fn rows(given: &[Given], input: usize) -> Vec<Row> {
    given.iter().flat_map(|given| given.streams[input].iter().map(|placed| placed.2)).collect()
}

/// What chained reshapes make of numbered rows, in cycles of this size.
fn reshaped(events: u32, cycle: u32, reshapes: &[Reshape]) -> Vec<Row> {
    let cut = |row: &Row| Cut { cycle: row.1 as u64 / u64::from(cycle), ..Cut::first() };
    let mut rows: Vec<(Cut, Row)> = numbered(0..events).iter().map(|row| (cut(row), *row)).collect();
    for reshape in reshapes {
        let made = |(cut, row): &(Cut, Row)| {
            reshape.rows(*row, cut).into_iter().map(|row| (cut.clone(), row)).collect::<Vec<_>>()
        };
        rows = rows.iter().flat_map(made).collect();
    }
    rows.into_iter().map(|(_, row)| row).collect()
}

#[test]
fn each_kind_and_chains_of_them_before_a_sink() {
    use Reshape::*;
    for chain in [vec![Filter], vec![Expand], vec![Change, Expand, Filter], vec![ByCycle, Expand, Expand]] {
        let mut plan = Plan::new("chain");
        let mut stream = plan.source("input", [schema()])[0];
        for reshape in &chain {
            stream = plan.transform(reshape.plan(stream));
        }
        plan.sink("output", [stream]);
        for (workers, cycle) in [(1, 10), (2, 10), (1, 4000), (2, 4000), (5, 4000)] {
            let (given, _) = run(&plan, 9000, workers, cycle);
            assert_eq!(rows(&given[0], 0), reshaped(9000, cycle, &chain), "{chain:?}, {workers} workers");
        }
    }
}

#[test]
fn one_stream_read_by_two_transforms_an_operator_and_a_sink() {
    let mut plan = Plan::new("fan-out");
    let input = plan.source("input", [schema()])[0];
    let filtered = plan.transform(Reshape::Filter.plan(input));
    let expanded = plan.transform(Reshape::Expand.plan(input));
    let forward = plan.operator(operator("forward", input, |_| Box::new(Forward::default())));
    let after = plan.transform(Reshape::Change.plan(forward[0]));
    let again = plan.operator(operator("again", after, |_| Box::new(Forward::default())));
    plan.sink("output", [filtered, expanded, input, after, again[0]]);
    let (alone, summary) = run(&plan, 6000, 1, 2500);
    assert_eq!(rows(&alone[0], 0), reshaped(6000, 2500, &[Reshape::Filter]));
    assert_eq!(rows(&alone[0], 1), reshaped(6000, 2500, &[Reshape::Expand]));
    assert_eq!(rows(&alone[0], 2), numbered(0..6000));
    let cut = Cut::first();
    let forwarded =
        numbered(0..6000).into_iter().map(|(key, time, value)| (key, time, value + u64::from(key) / 7));
    let changed: Vec<Row> = forwarded.flat_map(|row| Reshape::Change.rows(row, &cut)).collect();
    assert_eq!(rows(&alone[0], 3), changed);
    let mut seen = [0; 7];
    let counted = changed.iter().map(|(key, time, value)| {
        let seen = &mut seen[*key as usize % 7];
        *seen += 1;
        (*key, *time, value + *seen - 1)
    });
    assert_eq!(rows(&alone[0], 4), counted.collect::<Vec<_>>());
    for workers in [2, 5] {
        assert_eq!(run(&plan, 6000, workers, 2500).0, alone, "{workers} workers");
    }

    // The work of each, in the plan's order: transforms, then operators.
    let work: Vec<_> = summary.work.iter().map(|work| (&*work.name, work.rows_in, work.rows_out)).collect();
    let expanded = rows(&alone[0], 1).len() as u64;
    let expected = [
        ("reshape", 6000, 4000),
        ("reshape", 6000, expanded),
        ("reshape", 6000, 6000),
        ("forward", 6000, 6000),
        ("again", 6000, 6000),
    ];
    assert_eq!(work, expected);
}

/// Sums values by key and writes the sums when a cycle ends: how rows were added up before does not matter.
#[derive(Default)]
struct Sums(std::collections::BTreeMap<u32, u64>);

impl tidemill_engine::Operator for Sums {
    fn rows(&mut self, _input: usize, rows: Rows<'_>, _output: &mut Output) -> Result<(), Cause> {
        for (key, _, value) in rows_of(&rows.to_batch()) {
            *self.0.entry(key).or_default() += value;
        }
        Ok(())
    }
    fn end_of_cycle(&mut self, _cut: &Cut, output: &mut Output) -> Result<(), Cause> {
        let end = output.end_position();
        self.0.iter().for_each(|(key, sum)| output.port(0).push(end, (*key, 0i64, *sum)));
        Ok(())
    }
    fn snapshot(&self, _writer: &mut SnapshotWriter) {}
    fn restore(&mut self, _reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        Ok(())
    }
}

#[test]
fn rows_combined_before_the_split_give_the_same_sums() {
    let plan_with = |combine: bool| {
        let mut plan = Plan::new("sums");
        let mut stream = plan.source("input", [schema()])[0];
        stream = plan.transform(plan_of("three keys", stream, |rows, _| {
            let rows: Vec<_> =
                rows_of(rows).into_iter().map(|(key, time, value)| (0, (key % 3, time, value))).collect();
            Ok(Transformed { rows: batch(&rows).rows, causes: None })
        }));
        if combine {
            stream = plan.transform(plan_of("combine", stream, combined));
        }
        let sums = OperatorPlan::new("sums", 3, |_| Box::new(Sums::default()))
            .input(stream, COLUMNS, route_by_key::<UInt32Type>(0, 3))
            .output(schema());
        let sums = plan.operator(sums);
        plan.sink("output", sums);
        plan
    };
    let (expected, _) = run(&plan_with(false), 8000, 1, 3000);
    for workers in [1, 2, 5] {
        let (given, summary) = run(&plan_with(true), 8000, workers, 3000);
        assert_eq!(given, expected, "{workers} workers");
        assert!(summary.work[1].rows_out <= 8000 / 10, "little is left to split");
    }
}

/// One row per key of a batch, at the place of its last row.
fn combined(rows: &RecordBatch, _cut: &Cut) -> Result<Transformed, Cause> {
    let mut sums = std::collections::BTreeMap::new();
    for (cause, (key, time, value)) in rows_of(rows).into_iter().enumerate() {
        let (last, sum) = sums.entry(key).or_insert((0, (key, time, 0)));
        *last = cause as u32;
        sum.2 += value;
    }
    let mut sums: Vec<(u32, Row)> = sums.into_values().collect();
    sums.sort();
    let causes = sums.iter().map(|(last, _)| *last).collect();
    Ok(Transformed { rows: batch(&sums).rows, causes: Some(causes) })
}

#[test]
fn transforms_that_no_one_reads_are_never_called() {
    for workers in [1, 2, 5] {
        let mut plan = Plan::new("unread");
        let input = plan.source("input", [schema()])[0];
        let fails = |_: &RecordBatch, _: &Cut| Err(Cause::bug("called"));
        let unread = plan.transform(plan_of("unread", input, fails));
        plan.transform(plan_of("unread, too", unread, fails));
        let forward = plan.operator(operator("forward", input, |_| Box::new(Forward::default())));
        plan.transform(plan_of("unread behind an operator", forward[0], fails));
        plan.sink("output", [input]);
        let (given, summary) = run(&plan, 100, workers, 10);
        assert_eq!(rows(&given[0], 0), numbered(0..100));
        assert_eq!(summary.work[3].rows_in, 100, "the operator is not held up");
    }
}

#[test]
fn transforms_that_cannot_stand_where_they_do_are_refused() {
    let refused = |plan: Plan| match Engine::new().run(plan, Remember::default().boxed()) {
        Err(FlowError::Plan(PlanError::NoSuchStream { reader, .. })) => assert_eq!(reader, "reshape"),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("the plan was not refused"),
    };
    let mut of_itself = Plan::new("of itself");
    let input = of_itself.source("input", [schema()])[0];
    let first = of_itself.transform(Reshape::Change.plan(input));
    of_itself.transforms[0].input = first;
    of_itself.sink("output", [first]);
    refused(of_itself);
    let mut of_nothing = Plan::new("of nothing");
    let input = of_nothing.source("input", [schema()])[0];
    let stream = of_nothing.transform(Reshape::Change.plan(StreamRef { port: 1, ..input }));
    of_nothing.sink("output", [stream]);
    refused(of_nothing);
}

/// What goes wrong in cycle 4, where the rows 40 to 49 are.
fn wrong(what: &str, rows: &RecordBatch) -> Result<Transformed, Cause> {
    let keep = Transformed { rows: rows.clone(), causes: None };
    if rows_of(rows)[0].0 != 40 {
        return Ok(keep);
    }
    let causes = |causes: Vec<u32>| Ok(Transformed { causes: Some(causes), ..keep.clone() });
    match what {
        "error" => Err(Cause::user("no such car")),
        "panic" => panic!("no such car"),
        "too few rows" => Ok(Transformed { rows: rows.slice(0, 3), causes: None }),
        "too few causes" => causes(vec![0; 9]),
        "causes that go back" => causes(vec![0, 1, 2, 3, 4, 9, 6, 7, 8, 9]),
        "a cause that is no row" => causes(vec![0, 1, 2, 3, 4, 5, 6, 7, 8, 10]),
        "other columns" => Ok(Transformed { rows: rows.project(&[0, 2]).unwrap(), causes: None }),
        _ => Ok(Transformed { rows: rows.project(&[0, 2, 1]).unwrap(), causes: None }),
    }
}

#[test]
fn a_wrong_transform_stops_the_query_and_is_named() {
    let cases = [
        ("error", "no such car"),
        ("panic", "bug: no such car"),
        ("too few rows", "3 rows from 10 without stating"),
        ("too few causes", "name an input row for each"),
        ("causes that go back", "ascending"),
        ("a cause that is no row", "name an input row"),
        ("other columns", "do not match the plan"),
        ("columns in another order", "do not match the plan"),
    ];
    for ((what, text), workers) in cases.into_iter().flat_map(|case| [1, 2, 5].map(|workers| (case, workers)))
    {
        for behind_operator in [false, true] {
            let mut plan = Plan::new("wrong");
            let mut input = plan.source("input", [schema()])[0];
            if behind_operator {
                let one = OperatorPlan::new("one", 1, |_| Box::new(Forward::default()))
                    .input(input, COLUMNS, route_by_key::<UInt32Type>(0, 1))
                    .output(schema());
                input = plan.operator(one)[0];
            }
            let stream = plan.transform(plan_of("lookup", input, move |rows, _| wrong(what, rows)));
            let forward = plan.operator(operator("forward", stream, |_| Box::new(Forward::default())));
            plan.sink("output", forward);
            let failure = failure_of(what, workers, plan);
            let Failure::Engine { part, cause } = &failure else { panic!("{what}: {failure}") };
            assert_eq!(part, "transform 'lookup', cycle 4", "{what}");
            assert!(cause.to_string().contains(text), "{what}: {cause}");
        }
    }
}

struct Never;

impl Transform for Never {
    fn apply(&mut self, _rows: &RecordBatch, _cut: &Cut) -> Result<Transformed, Cause> {
        Err(Cause::bug("never made"))
    }
}

#[test]
fn a_transform_that_cannot_be_made_stops_the_query() {
    let made = |panics: bool| -> Box<dyn Transform> {
        assert!(!panics, "no table to look up in");
        Box::new(Never)
    };
    for workers in [1, 2, 5] {
        let mut plan = Plan::new("not made");
        let input = plan.source("input", [schema()])[0];
        let stream = plan.transform(TransformPlan::new("lookup", input, schema(), move || made(true)));
        plan.sink("output", [stream]);
        let failure = failure_of("a factory that panics", workers, plan).to_string();
        assert!(
            failure.contains("transform 'lookup'") && failure.contains("no table to look up in"),
            "{failure}"
        );
    }
}

fn failure_of(what: &'static str, workers: usize, plan: Plan) -> Failure {
    watched(what, move || {
        let sink = Remember::default();
        let engine = Engine::new().workers(workers).cycles(CyclePolicy::fixed(10));
        let mut running = engine.run(plan, sink.boxed()).unwrap();
        let gateway = running.gateway(0).unwrap();
        for number in 0.. {
            if gateway.push(chunk(&numbered(number * 10..number * 10 + 10))).is_err() {
                break;
            }
        }
        assert!(sink.committed() <= 4, "{what}: a cycle without its rows was committed");
        match running.join() {
            Err(FlowError::Failed(failure)) => failure,
            result => panic!("{what}: {:?}", result.map(|_| "an orderly end")),
        }
    })
}
