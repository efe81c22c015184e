//! Lattices with as many splitters as each of the papers' rules says: how fast they are, and what all of it costs.

use tidemill_engine::{Prediction, SplitPlan, predict};
use tidemill_split::SplittersBy;

use crate::Arguments;
use crate::input::Input;
use crate::measure::Measured;

/// The part of the rows that is broadcast, as in Linear Road.
const BROADCAST: f64 = 0.005;

/// The splitters of a lattice, and who says so.
struct Lattice {
    by: &'static str,
    plan: SplitPlan,
}

/// For each number of partitions: p by the heuristic, with one window router and with a tree of them, by the cost model,
/// 1 and q.
///
/// # Errors
/// If a row goes astray.
pub fn lattices(arguments: &Arguments) -> anyhow::Result<()> {
    let rate = arguments.lattice_rate;
    println!(
        "\n## Lattices for {} M tuples/s: p by the heuristic, by the cost model, 1 and q; 0.5 % broadcast\n",
        rate / 1e6
    );
    println!(
        "| q | p by | p | window routers | M/s | routers, ns | splitting, ns | model, ns | operators, ns | total, ns | \
         model without exchange, ns | eta | eta of the model | energy |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for partitions in &arguments.lattices {
        let input = Input::new(*partitions, BROADCAST, arguments.workers, arguments)?;
        for Lattice { by, plan } in of(&input, *partitions, rate) {
            // A worker for each splitter and one more, or each would split what it has.
            let workers = plan.splitters() as usize + 1;
            let prediction = predict(plan, &input.profile, workers as u32);
            let measured = input.best(&prediction.plan, workers, 10e6, arguments)?;
            println!("{}", line(by, &prediction, &measured));
        }
    }
    Ok(())
}

fn of(input: &Input, partitions: u32, rate: f64) -> Vec<Lattice> {
    let by = |rule: SplittersBy| rule.splitters(&input.profile, partitions, rate).min(SPLITTERS_MAX);
    let single = |splitters| SplitPlan::parasplit(partitions, splitters);
    let (heuristic, model) = (by(SplittersBy::Heuristic), by(SplittersBy::Model));
    vec![
        Lattice { by: "heuristic", plan: single(heuristic) },
        Lattice { by: "heuristic", plan: SplitPlan::parasplit_tree(partitions, heuristic) },
        Lattice { by: "model", plan: single(model) },
        Lattice { by: "1", plan: single(1) },
        Lattice { by: "q", plan: single(partitions) },
    ]
}

/// More threads than this measure how the machine switches between them.
pub const SPLITTERS_MAX: u32 = 512;

fn line(by: &str, prediction: &Prediction, measured: &Measured) -> String {
    let plan = &prediction.plan;
    let splitters_ns: f64 = measured.splitters().map(|(_, cost_ns)| cost_ns).sum();
    let predicted = prediction.stages.iter().filter(|stage| stage.name.starts_with("splitters"));
    let predicted_ns: f64 = predicted.map(|stage| stage.total_ns()).sum();
    format!(
        "| {} | {by} | {} | {} | {:.2} | {:.2} | {splitters_ns:.1} | {predicted_ns:.1} | {:.1} | {:.1} | {:.1} | \
         {:.2} | {:.2} | {} |",
        plan.partitions,
        plan.splitters(),
        if plan.routers() > 1 { format!("1 + {}", plan.routers()) } else { "1".into() },
        measured.rate / 1e6,
        measured.routing_ns(),
        measured.operator_ns,
        measured.process_ns,
        prediction.total_ns,
        splitters_ns / measured.process_ns,
        predicted_ns / prediction.total_ns,
        measured.energy(),
    )
}

#[cfg(test)]
mod tests {
    use tidemill_energy::Used;
    use tidemill_split::predict::{PredictedStage, QUERY, SPLITTERS, WINDOW_ROUTER, WINDOW_ROUTERS};

    use super::*;

    #[test]
    fn a_line_sums_routers_and_divides_by_the_total() {
        let stage = |name: &str, processes, cost_ns| PredictedStage { name: name.into(), processes, cost_ns };
        let prediction = Prediction {
            plan: SplitPlan::parasplit_tree(64, 5),
            stages: vec![
                stage(WINDOW_ROUTER, 1, 1.0),
                stage(WINDOW_ROUTERS, 3, 1.0),
                stage(SPLITTERS, 5, 4.0),
                stage(QUERY, 64, 0.25),
            ],
            shares_broadcast: false,
            total_ns: 40.0,
            rate_max: 1e8,
        };
        let cost = |name: &str, cost_ns| (name.to_owned(), cost_ns);
        let measured = Measured {
            rate: 9.5e6,
            events: 1e6,
            used: Used { processor_s: 0.088, joules: None },
            process_ns: 88.0,
            stages: vec![cost(WINDOW_ROUTER, 1.5), cost(WINDOW_ROUTERS, 2.0), cost(SPLITTERS, 22.0)],
            operator_ns: 3.0,
            query_ns: 3.0,
        };
        assert_eq!(
            line("heuristic", &prediction, &measured),
            "| 64 | heuristic | 5 | 1 + 3 | 9.50 | 3.50 | 22.0 | 20.0 | 3.0 | 88.0 | 40.0 | 0.25 | 0.50 | \
             11.4 M tuples/processor s |"
        );
    }
}
