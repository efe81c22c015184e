//! An experiment: all plans at each of several points, in a table and a picture.

use anyhow::Context;
use tidemill_split::choose::{candidates, choose};

use crate::Arguments;
use crate::input::{Compared, Input};
use crate::picture::{self, Curve};
use crate::table::{self, Line};

/// The plans' names, in the order of the candidates for the highest rate.
const NAMES: [&str; 4] = ["parasplit", "fsplit", "exptree", "maxtree"];

/// Measures all plans at each point: its place on the axis, the number of partitions, the part that is broadcast.
pub fn sweep(
    arguments: &Arguments,
    name: &str,
    x_name: &str,
    points: impl Iterator<Item = (f64, u32, f64)>,
) -> anyhow::Result<()> {
    let workers = arguments.workers as u32;
    let mut curves: Vec<Curve> =
        NAMES.iter().map(|name| Curve { name: name.to_string(), points: Vec::new() }).collect();
    let mut all = Vec::new();
    table::heading(x_name);
    for (x, partitions, broadcast) in points {
        let mut input = Input::new(partitions, broadcast, arguments.workers)?;
        let auto = choose(&input.profile, partitions, f64::INFINITY, workers);
        let mut lines = Vec::new();
        for plan in candidates(&input.profile, partitions, f64::INFINITY, workers) {
            let compared = input.best_beside_model(&plan, arguments)?;
            let is_auto = auto.prediction().plan == plan;
            lines.push(Line { x, compared, is_auto });
        }
        table::print(&lines);
        for (curve, line) in curves.iter_mut().zip(&lines) {
            let Compared { prediction, measured, .. } = &line.compared;
            curve.points.push((x, measured.rate, prediction.rate_max));
        }
        all.extend(lines);
    }
    println!("\n{}", table::summary(&all));
    if let Some(folder) = &arguments.pictures {
        let path = folder.join(format!("{name}.svg"));
        std::fs::write(&path, picture::draw(name, x_name, &curves))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
