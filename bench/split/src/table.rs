//! The table of an experiment: model and measurement side by side.

use crate::input::Compared;

/// A plan at a point.
pub struct Line {
    pub x: f64,
    pub compared: Compared,
    pub is_auto: bool,
}

impl Line {
    /// The share of the work that splits, rather than passing on and merging: measured, and by the model.
    fn efficiency(&self) -> f64 {
        let measured = &self.compared.measured;
        let splitting_ns: f64 = measured.splitters().map(|(_, cost_ns)| cost_ns).sum();
        splitting_ns / (measured.splitting_ns() + measured.operator_ns)
    }

    fn ratios(&self) -> String {
        self.compared.ratios.iter().map(|ratio| format!("{ratio:.2}")).collect::<Vec<_>>().join(" ")
    }
}

/// The line below all others: how many stages cost what the model says, give or take 20 %; for as many partitions as the
/// project's goal speaks of, and for more.
pub fn summary(lines: &[Line]) -> String {
    let partitions = |line: &Line| line.compared.prediction.plan.partitions;
    let (few, many): (Vec<&Line>, Vec<&Line>) = lines.iter().partition(|line| partitions(line) <= 64);
    let count = |lines: Vec<&Line>| {
        let ratios: Vec<f64> = lines.iter().flat_map(|line| line.compared.ratios.clone()).collect();
        format!("{} of {}", ratios.iter().filter(|ratio| (0.8..=1.2).contains(*ratio)).count(), ratios.len())
    };
    let (few, many) = (count(few), count(many));
    format!("Stages within 20 % of the model: {few} for up to 64 partitions, {many} for more.")
}

pub fn heading(x_name: &str) {
    println!(
        "| {x_name} | plan | M/s | model M/s | splitting, ns | model, ns | measured / model, by stage | router, ns | \
         operators, ns | eta | energy | auto |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
}

/// The lines of one point, and how far the engine's choice is from the best of them.
pub fn print(lines: &[Line]) {
    let best = lines.iter().map(|line| line.compared.measured.rate).fold(0.0, f64::max);
    for line in lines {
        let (x, Compared { prediction, measured, .. }) = (line.x, &line.compared);
        let router_ns = measured.routing_ns();
        let auto =
            if line.is_auto { format!("{:.2} of the best", measured.rate / best) } else { String::new() };
        println!(
            "| {x} | {} | {:.2} | {:.2} | {:.1} | {:.1} | {} | {router_ns:.2} | {:.1} | {:.2} | {} | {auto} |",
            prediction.plan.to_string().split(" to ").next().unwrap_or_default(),
            measured.rate / 1e6,
            prediction.rate_max / 1e6,
            measured.splitting_ns(),
            prediction.splitting_ns(),
            line.ratios(),
            measured.operator_ns,
            line.efficiency(),
            measured.energy(),
        );
    }
}

#[cfg(test)]
mod tests {
    use tidemill_energy::Used;
    use tidemill_engine::{Prediction, SplitPlan};

    use super::*;
    use crate::measure::Measured;

    #[test]
    fn stages_beside_the_model_are_counted() {
        let line = |partitions, ratios: &[f64]| {
            let (plan, stages) = (SplitPlan::fsplit(partitions), Vec::new());
            let prediction =
                Prediction { plan, stages, shares_broadcast: false, total_ns: 1.0, rate_max: 1.0 };
            let measured = Measured {
                rate: 1.0,
                events: 1.0,
                used: Used { processor_s: 1.0, joules: None },
                process_ns: 1.0,
                stages: Vec::new(),
                operator_ns: 1.0,
                query_ns: 1.0,
            };
            Line {
                x: 0.0,
                compared: Compared { prediction, measured, ratios: ratios.to_vec() },
                is_auto: false,
            }
        };
        let lines = [line(8, &[0.79, 0.81, 1.0]), line(64, &[1.21, 1.19]), line(128, &[f64::NAN, 1.0])];
        let text = "Stages within 20 % of the model: 3 of 5 for up to 64 partitions, 1 of 2 for more.";
        assert_eq!(summary(&lines), text);
    }
}
