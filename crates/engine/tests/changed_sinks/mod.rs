//! Which state is kept when sinks are added and removed: compared by what operators compute.

mod halts;

use tidemill_core::arrow::schema::{DataType, Field, Schema, SchemaRef};
use tidemill_plan::OperatorPlan;
use tidemill_split::Route;

use super::*;

fn schema() -> SchemaRef {
    Schema::new(vec![Field::new("time", DataType::Int64, false)]).into()
}

/// A plan with sinks over chains of operators, each given by what it computes. Equal beginnings of chains are shared, as the
/// planner does it, and operators are numbered in their order.
fn plan_of(sinks: &[(&str, &[&str])]) -> (Plan, Vec<SinkQuery>) {
    let mut plan = Plan::new("a query");
    let source = plan.source("clicks", [schema()])[0];
    let mut made: Vec<(Vec<&str>, StreamRef)> = Vec::new();
    for (name, chain) in sinks {
        let mut stream = source;
        for length in 1..=chain.len() {
            let known = made.iter().find(|(known, _)| known == &chain[..length]).map(|(_, stream)| *stream);
            stream = known.unwrap_or_else(|| {
                let kind = chain[length - 1];
                let numbered = format!("{} {kind}", plan.operators.len() + 1);
                let route: Box<Route> = Box::new(|_, _| ());
                let mut operator = OperatorPlan::new(numbered, 4, |_| unreachable!("it is only described"))
                    .input(stream, &[], route)
                    .output(schema());
                operator.identity = Some(chain[..length].join(" > "));
                let output = plan.operator(operator)[0];
                made.push((chain[..length].to_vec(), output));
                output
            });
        }
        plan.sink(*name, [stream]);
    }
    let query = |(_, chain): &(&str, &[&str])| SinkQuery {
        text: chain.join(" > "),
        is_table: false,
        from_earliest: false,
    };
    let queries: Vec<SinkQuery> = sinks.iter().map(query).collect();
    (plan, queries)
}

fn parts(sinks: &[(&str, &[&str])]) -> (QueryParts, Vec<SinkQuery>) {
    let (plan, queries) = plan_of(sinks);
    (QueryParts::of(&plan, &queries), queries)
}

fn changed(before: &[(&str, &[&str])], now: &[(&str, &[&str])]) -> Result<RetainedParts, String> {
    let ((before, _), (now, queries)) = (parts(before), parts(now));
    let stored = format!("{}the rest\n", before.text());
    let (read, rest) = QueryParts::read(&stored);
    assert_eq!((&read, rest), (&before, "the rest\n"), "what is stored is read again");
    compare(&now, &read, &queries)
}

fn state(operators: &[&str]) -> Snapshot {
    let of = |name: &&str| ((*name).to_owned(), BTreeMap::from([(0, name.as_bytes().to_vec())]));
    let watermarks = operators.iter().map(|name| ((*name).to_owned(), name.len() as i64)).collect();
    Snapshot { cycle: 7, operators: operators.iter().map(of).collect(), watermarks }
}

#[test]
fn operators_with_other_numbers_find_their_state() {
    let before: &[(&str, &[&str])] = &[("gone", &["join"]), ("stays", &["window", "top"])];
    let kept = changed(before, &[("stays", &["window", "top"]), ("new", &["count"])]).unwrap();
    assert_eq!((kept.kept.as_slice(), kept.added.as_slice()), (&["stays".into()][..], &["new".into()][..]));
    assert_eq!(
        (kept.removed.as_slice(), kept.dropped.as_slice()),
        (&["gone".into()][..], &["1 join".into()][..])
    );
    let state = kept.state(&state(&["1 join", "2 window", "3 top"]));
    let names: Vec<_> =
        state.operators.iter().map(|(name, partitions)| (name.as_str(), partitions[&0].as_slice())).collect();
    assert_eq!(names, [("1 window", &b"2 window"[..]), ("2 top", &b"3 top"[..])]);
    assert_eq!(state.watermarks["1 window"], 8);
}

#[test]
fn what_is_shared_stays_as_long_as_one_sink_has_it() {
    let before: &[(&str, &[&str])] = &[("a", &["window", "top"]), ("b", &["window", "count"])];
    let kept = changed(before, &[("b", &["window", "count"])]).unwrap();
    assert_eq!(kept.dropped, ["2 top"]);
    assert_eq!(kept.state(&state(&["1 window", "2 top", "3 count"])).operators.len(), 2);
}

#[test]
fn a_new_sink_begins_without_state_also_if_a_removed_one_had_the_same_query() {
    let kept = changed(&[("a", &["count"]), ("b", &["top"])], &[("b", &["top"]), ("c", &["count"])]).unwrap();
    assert_eq!(kept.state(&state(&["1 count", "2 top"])).operators.keys().collect::<Vec<_>>(), ["1 top"]);
}

#[test]
fn what_cannot_be_kept_is_refused_with_a_reason() {
    let before: &[(&str, &[&str])] = &[("a", &["window"]), ("b", &["top"])];
    let reason = changed(before, &[("a", &["window", "top"]), ("b", &["top"])]).unwrap_err();
    assert!(reason.contains("the query of sink 'a' has changed"), "{reason}");
    let reason = changed(before, &[("c", &["window"])]).unwrap_err();
    assert!(reason.contains("none of its sinks ('a', 'b') is here unchanged"), "{reason}");
    let ((before, _), (now, _)) = (parts(before), parts(&[("a", &["window", "top"]), ("b", &["top"])]));
    assert_eq!(
        told(&now, &before),
        "unchanged: sink 'b' with the state of '2 top'; changed or gone: sink 'a' with the state of '1 window'"
    );
}

#[test]
fn a_table_that_others_have_already_cannot_be_given_to_a_new_sink() {
    let (before, _) = parts(&[("a", &["count"])]);
    let (now, mut queries) = parts(&[("a", &["count"]), ("b", &["count"])]);
    assert!(compare(&now, &before, &queries).is_ok(), "rows that are only added may be shared");
    queries[1].is_table = true;
    let reason = compare(&now, &before, &queries).unwrap_err();
    assert!(reason.contains("would lack the rows that do not change"), "{reason}");
    queries[1] = SinkQuery { from_earliest: true, is_table: false, ..queries[1].clone() };
    assert!(compare(&now, &before, &queries).unwrap_err().contains("start = 'earliest'"));
}

#[test]
fn operators_that_look_alike_are_not_mistaken_for_each_other() {
    // Two with the same identity: which of them had which state is not known.
    let (mut before, _) = parts(&[("a", &["count"]), ("b", &["top"])]);
    let (now, queries) = parts(&[("a", &["count"])]);
    before.operators[1].identity = "count".into();
    before.operators[1].sinks.insert(0);
    assert!(compare(&now, &before, &queries).unwrap_err().contains("no operator like '1 count', or several"));
    let (mut unknown, _) = parts(&[("a", &["count"]), ("b", &["top"])]);
    unknown.operators[0].identity.clear();
    assert!(compare(&now, &unknown, &queries).is_err());
}
