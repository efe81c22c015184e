//! What is refused: chunks that do not fit their source, plans and limits under which nothing would move.

use crate::fixture::forward::{Forward, plan, plan_without_operators};
use crate::fixture::sink::Remember;
use crate::fixture::{batch, schema, watched};
use tidemill_engine::{
    Batch, Chunk, CyclePolicy, Engine, Failure, FlowError, Limits, OperatorPlan, Plan, PlanError, Sink,
    StreamRef,
};

fn stopped_by(what: &'static str, bad: impl FnOnce() -> Chunk + Send + 'static) -> Failure {
    watched(what, move || {
        let mut plan = Plan::new("two streams");
        let streams = plan.source("input", [schema(), schema()]);
        plan.sink("output", streams);
        let mut running = Engine::new().workers(2).run(plan, Remember::default().boxed()).unwrap();
        let gateway = running.gateway(0).unwrap();
        assert!(gateway.push(bad()).is_err(), "{what} was taken");
        match running.join() {
            Err(FlowError::Failed(failure)) => failure,
            _ => panic!("{what} did not stop the query"),
        }
    })
}

#[test]
fn a_chunk_that_does_not_fit_its_source_stops_the_query() {
    let chunk = |streams: Vec<Option<Batch>>, events| Chunk {
        streams,
        events,
        watermark: 0,
        arrived_ns: None,
        idle: false,
    };
    let row = |position| (position, (1, 1, 1));
    let other_columns = || {
        let mut wrong = batch(&[row(0)]);
        wrong.rows = wrong.rows.project(&[0, 2]).unwrap();
        wrong
    };
    let short = || Batch { positions: vec![0].into(), ..batch(&[row(0), row(1)]) };
    let cases: [(&str, Chunk, &str); 5] = [
        ("too few streams", chunk(vec![None], 1), "1 streams, but the source has 2"),
        ("other columns", chunk(vec![None, Some(other_columns())], 1), "stream 1: its columns"),
        (
            "a position too large",
            chunk(vec![Some(batch(&[row(5)])), None], 5),
            "position 5, but the chunk has 5",
        ),
        ("positions that go back", chunk(vec![Some(batch(&[row(3), row(2)])), None], 5), "are not ascending"),
        ("too few positions", chunk(vec![Some(short()), None], 5), "one position for each row"),
    ];
    for (what, bad, text) in cases {
        let failure = stopped_by(what, move || bad).to_string();
        assert!(failure.contains("gateway 'input'") && failure.contains(text), "{failure}");
    }
}

#[test]
fn plans_that_would_stand_still_are_refused() {
    let refused = |plan: Plan| {
        let sinks = plan.sinks.iter().map(|_| Box::new(Remember::default()) as Box<dyn Sink>).collect();
        match Engine::new().run(plan, sinks) {
            Err(FlowError::Plan(error)) => error,
            _ => panic!("the plan was not refused"),
        }
    };
    let mut no_input = plan();
    let alone = OperatorPlan::new("alone", 1, |_| Box::new(Forward::default())).output(schema());
    let port: Vec<StreamRef> = no_input.operator(alone);
    no_input.sink("second", port);
    assert_eq!(refused(no_input), PlanError::NoInputs("alone".into()));
    let mut idle_sink = plan();
    idle_sink.sink("idle", []);
    assert_eq!(refused(idle_sink), PlanError::NoInputs("idle".into()));
}

#[test]
fn limits_under_which_nothing_would_move_or_that_are_none_are_refused() {
    let limits = |change: fn(&mut Limits)| {
        let mut limits = Limits::default();
        change(&mut limits);
        Engine::new().limits(limits)
    };
    let refused = [
        Engine::new().workers(0),
        Engine::new().cycles(CyclePolicy::fixed(0)),
        Engine::new().cycles(CyclePolicy::fixed(u32::MAX)),
        limits(|limits| limits.cycles_in_flight_max = 0),
        limits(|limits| limits.cycles_in_flight_max = u64::MAX),
        limits(|limits| limits.uncommitted_bytes_max = 0),
        limits(|limits| limits.gateway_batches_max = 0),
        limits(|limits| limits.gateway_batches_max = usize::MAX),
    ];
    for (index, engine) in refused.into_iter().enumerate() {
        let result = engine.run(plan_without_operators(), Remember::default().boxed());
        assert!(matches!(result, Err(FlowError::Settings(_))), "number {index} was not refused");
    }
}
