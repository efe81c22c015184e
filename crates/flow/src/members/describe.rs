//! A plan as text, to check that all processes of a run have the same one. The behaviour of functions (routes,
//! operators, transforms) cannot be compared; it is the same because the program is.

use std::fmt::Write;

use arrow_schema::{FieldRef, SchemaRef};
use tidemill_plan::Plan;

/// Everything in a plan, with a line for each part.
pub(crate) fn describe(plan: &Plan) -> String {
    let mut text = format!("tidemill {}\nquery {:?}\n", env!("CARGO_PKG_VERSION"), plan.name);
    for source in &plan.sources {
        line(&mut text, format_args!("source {:?}: {}", source.name, schemas(&source.streams)));
    }
    for transform in &plan.transforms {
        let (name, input, output) = (&transform.name, &transform.input, schemas([&transform.output]));
        line(&mut text, format_args!("transform {name:?} of {input:?}: {output}"));
    }
    for process in &plan.stream_processes {
        line(&mut text, format_args!("{process:?}"));
    }
    for operator in &plan.operators {
        let (name, partitions, outputs) = (&operator.name, operator.partitions, schemas(&operator.outputs));
        line(&mut text, format_args!("operator {name:?}, {partitions} partitions: {outputs}"));
        if let Some(process) = operator.stream_process {
            line(&mut text, format_args!("in process {process}"));
        }
        for input in &operator.inputs {
            let (stream, columns) = (&input.stream, &input.columns);
            // Measurements of earlier runs concern only process 0, which chooses.
            let auto = input.auto_split.as_ref().map(|auto| (auto.desired_rate, auto.every));
            let split = &input.split;
            line(&mut text, format_args!("input {stream:?} {columns:?}, split {split:?}, auto {auto:?}"));
        }
    }
    for sink in &plan.sinks {
        line(&mut text, format_args!("sink {:?} of {:?}", sink.name, sink.inputs));
    }
    let (faults, rows) = (plan.left_out.faults.len(), plan.left_out.rows.len());
    line(&mut text, format_args!("counts faults in {faults} logs, and rows in {rows} counters"));
    text
}

/// Names and types of columns, without metadata, which has no order.
fn schemas<'a>(schemas: impl IntoIterator<Item = &'a SchemaRef>) -> String {
    let column = |field: &FieldRef| {
        let null = if field.is_nullable() { "?" } else { "" };
        format!("{:?} {}{null}", field.name(), field.data_type())
    };
    let of_one = |schema: &SchemaRef| schema.fields().iter().map(column).collect::<Vec<_>>().join(", ");
    schemas.into_iter().map(|schema| format!("({})", of_one(schema))).collect::<Vec<_>>().join(" ")
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = text.write_fmt(arguments);
    text.push('\n');
}

/// The first line in which two descriptions differ, if there is one.
pub(crate) fn difference<'a>(own: &'a str, other: &'a str) -> Option<(&'a str, &'a str)> {
    let mut lines = own.lines().zip(other.lines());
    match lines.find(|(own, other)| own != other) {
        None if own == other => None,
        None => Some(("(the end)", "(more, or less)")),
        different => different,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::{DataType, Field, Schema};

    use super::*;

    fn plan(column: &str) -> Plan {
        let mut plan = Plan::new("query");
        let schema = Arc::new(Schema::new(vec![Field::new(column, DataType::UInt32, true)]));
        let input = plan.source("input", [schema]);
        plan.sink("output", input);
        plan
    }

    #[test]
    fn the_first_line_that_differs_is_found() {
        let own = describe(&plan("a"));
        assert_eq!(difference(&own, &describe(&plan("a"))), None);
        let other = describe(&plan("b"));
        let (own_line, other_line) = difference(&own, &other).unwrap();
        assert_eq!(
            (own_line, other_line),
            ("source \"input\": (\"a\" UInt32?)", "source \"input\": (\"b\" UInt32?)")
        );
        assert!(difference(&own, &own[..own.len() - 1]).is_some());
        assert!(difference(&own, &format!("{own}more\n")).is_some());
    }
}
