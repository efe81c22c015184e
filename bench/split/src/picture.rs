//! A picture of rates, as SVG: measured as lines, the model's as dashes, both axes logarithmic.

use std::fmt::Write;

/// A plan's rates: for each x the measured one and the model's.
pub struct Curve {
    pub name: String,
    pub points: Vec<(f64, f64, f64)>,
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 400.0;
const MARGIN: f64 = 60.0;
const COLORS: [&str; 5] = ["#1b6ca8", "#c0392b", "#27803b", "#8e44ad", "#b9770e"];

/// The picture's text.
pub fn draw(title: &str, x_name: &str, curves: &[Curve]) -> String {
    let xs = || curves.iter().flat_map(|curve| &curve.points).map(|point| point.0);
    let ys = || curves.iter().flat_map(|curve| &curve.points).flat_map(|point| [point.1, point.2]);
    let (x, y) = (Axis::of(xs(), MARGIN, WIDTH - 20.0), Axis::of(ys(), HEIGHT - MARGIN, 40.0));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"{MARGIN}\" y=\"20\">{title}: events/s, measured (lines) and model (dashes)</text>\n\
         <text x=\"{}\" y=\"{}\">{x_name}</text>\n",
        WIDTH / 2.0,
        HEIGHT - 15.0
    );
    for value in [x.low, x.high] {
        line(&mut svg, &format!("<text x=\"{:.1}\" y=\"{}\">{value}</text>", x.at(value), HEIGHT - 40.0));
    }
    for value in [y.low, y.high] {
        line(&mut svg, &format!("<text x=\"5\" y=\"{:.1}\">{:.2} M</text>", y.at(value), value / 1e6));
    }
    for ((curve, color), row) in curves.iter().zip(COLORS.iter().cycle()).zip(0..) {
        let path = |of: fn(&(f64, f64, f64)) -> f64| {
            let at = |point| format!("{:.1},{:.1}", x.at(Axis::x_of(point)), y.at(of(point)));
            curve.points.iter().map(at).collect::<Vec<_>>().join(" ")
        };
        let stroke = format!("fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"");
        line(&mut svg, &format!("<polyline points=\"{}\" {stroke}/>", path(|point| point.1)));
        line(&mut svg, &format!("<polyline points=\"{}\" {stroke} stroke-dasharray=\"4\"/>", path(|p| p.2)));
        let y = HEIGHT - MARGIN - 10.0 - 16.0 * f64::from(row);
        line(
            &mut svg,
            &format!("<text x=\"{}\" y=\"{y}\" fill=\"{color}\">{}</text>", MARGIN + 10.0, curve.name),
        );
    }
    svg.push_str("</svg>\n");
    svg
}

fn line(svg: &mut String, text: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(svg, "{text}");
}

/// A logarithmic axis.
struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    fn of(values: impl Iterator<Item = f64> + Clone, from: f64, to: f64) -> Self {
        // Zero has no place on a logarithmic axis: it is drawn where the axis begins.
        let positive = values.filter(|value| *value > 0.0);
        let (low, high) = (positive.clone().fold(f64::MAX, f64::min), positive.fold(0.0, f64::max));
        Axis { low, high, from, to }
    }

    fn x_of(point: &(f64, f64, f64)) -> f64 {
        point.0
    }

    fn at(&self, value: f64) -> f64 {
        let part = (value.max(self.low) / self.low).ln() / (self.high / self.low).ln();
        self.from + (self.to - self.from) * if part.is_finite() { part } else { 0.0 }
    }
}
