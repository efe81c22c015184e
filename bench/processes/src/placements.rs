//! The six queries of the thesis, which send n streams of arrays from one group of places to another and count them there.

use tidemill_charts::{Curve, Scale};

use crate::query::{Over, PLACES, cost_note, rate};
use crate::{Arguments, picture};

/// One of the six.
#[derive(Clone, Copy)]
struct Placement {
    number: u32,
    /// Where the streams are made: all in one place, or in several.
    made: &'static str,
    /// Where they are counted, each by itself; `None`: all in one place.
    counted: Option<&'static str>,
}

const QUERIES: [Placement; 6] = [
    Placement { number: 1, made: "PREFER 1", counted: None },
    Placement { number: 2, made: "PREFER NEXT OF be", counted: None },
    Placement { number: 3, made: "PREFER 1", counted: Some("PREFER pset1") },
    Placement { number: 4, made: "PREFER NEXT OF be", counted: Some("PREFER pset1") },
    Placement { number: 5, made: "PREFER 1", counted: Some("PREFER EACH OF bg") },
    Placement { number: 6, made: "PREFER NEXT OF be", counted: Some("PREFER EACH OF bg") },
];

impl Placement {
    /// A script that sends this many arrays of each of n streams, and its answer.
    fn script(&self, streams: u32, elements: u32, arrays: u32) -> (String, Vec<i64>) {
        let made = self.made;
        let count = "count(signal) AS n, sum(CAST(array_length(signal) AS BIGINT)) AS elements";
        let counting = match self.counted {
            None => format!(
                "CREATE PROCESS b PREFER bg AS SELECT window_end, {count}
                 FROM tumble(TABLE(a), event_time, INTERVAL '1 day') GROUP BY window_end;
                 CREATE PROCESS c PREFER bg AS SELECT n, elements FROM b;"
            ),
            Some(places) => format!(
                "CREATE PROCESS b FOR i IN generate_series(1, {streams}) {places} AS SELECT window_end, {count}
                 FROM tumble(TABLE(a(i)), event_time, INTERVAL '1 day') GROUP BY window_end;
                 CREATE PROCESS c PREFER bg AS SELECT window_end, CAST(sum(n) AS BIGINT) AS n,
                    CAST(sum(elements) AS BIGINT) AS elements FROM b GROUP BY window_end;"
            ),
        };
        let script = format!(
            "{PLACES} SET cycle_fixed = true; SET cycle_events = {streams};
             CREATE PROCESS a FOR i IN generate_series(1, {streams}) {made} AS
             SELECT array_repeat(CAST(value AS DOUBLE), {elements}) AS signal, event_time
             FROM sequence(count => {arrays});
             {counting}
             SELECT n, elements FROM c;"
        );
        let all = i64::from(streams) * i64::from(arrays);
        (script, vec![all, all * i64::from(elements)])
    }
}

/// Prints the table, and draws the pictures.
///
/// # Errors
/// If an answer is wrong, or a picture cannot be written.
pub fn measure(arguments: &Arguments) -> anyhow::Result<()> {
    let elements = (arguments.array_bytes / 8).max(1);
    println!("\n## Queries 1 to 6 of the thesis, arrays of {} bytes: MB/s\n", 8 * elements);
    println!("{}\n", cost_note());
    println!("| n | over | 1 | 2 | 3 | 4 | 5 | 6 |\n|---|---|---|---|---|---|---|---|");
    for over in Over::ALL {
        let mut curves = vec![Vec::new(); QUERIES.len()];
        for streams in &arguments.streams {
            let mut line = format!("| {streams} | {} |", over.name());
            for (query, curve) in QUERIES.iter().zip(&mut curves) {
                let round_bytes = f64::from(*streams) * f64::from(elements) * 8.0;
                let script = |arrays| query.script(*streams, elements, arrays);
                let rate = rate(arguments.runs, over, script, (arguments.arrays, round_bytes))?;
                line += &rate.cell();
                curve.push((f64::from(*streams), rate.mb_per_s));
            }
            println!("{line}");
        }
        let curves = QUERIES.iter().zip(curves);
        let curves: Vec<Curve> =
            curves.map(|(query, points)| Curve::new(format!("query {}", query.number), points)).collect();
        let (name, title) =
            (format!("placements-{}", over.name()), format!("six placements over {}", over.name()));
        picture::write(arguments, &name, &title, ("streams", Scale::Linear), &curves)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::run;

    #[test]
    fn all_arrays_are_counted_under_each_placement() {
        for query in QUERIES {
            let (script, expected) = query.script(3, 4, 5);
            run(&script, Over::Threads, &expected).unwrap();
        }
    }
}
