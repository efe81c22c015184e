//! Charts of measurements, as SVG, for benchmarks.
//!
//! ```
//! use tidemill_charts::{Chart, Curve, Scale};
//!
//! let measured = Curve::new("exptree", vec![(1.0, 20.0), (64.0, 5.0)]);
//! let curve = measured.with_model(vec![(1.0, 22.0), (64.0, 4.5)]);
//! let chart = Chart::new("Rate by number of partitions, M/s", "partitions").y(Scale::Logarithmic);
//! assert!(chart.svg(&[curve]).starts_with("<svg"));
//! ```

use std::fmt::Write;

/// A named curve. Points are from left to right.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    name: String,
    points: Vec<(f64, f64)>,
    model: Vec<(f64, f64)>,
}

impl Curve {
    /// A curve, drawn as a line.
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Curve { name: name.into(), points, model: Vec::new() }
    }

    /// Adds what a model says, drawn as dashes in the same colour.
    pub fn with_model(self, model: Vec<(f64, f64)>) -> Self {
        Curve { model, ..self }
    }
}

/// How values are mapped to an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences have equal lengths.
    Linear,
    /// Equal ratios have equal lengths. Values that are not positive are drawn where the axis begins.
    Logarithmic,
}

/// A chart without its curves. The horizontal axis is logarithmic and the vertical one linear, unless set otherwise.
#[derive(Clone, Debug)]
pub struct Chart {
    title: String,
    x_name: String,
    x: Scale,
    y: Scale,
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 400.0;
const MARGIN: f64 = 60.0;
const LEGEND: f64 = 120.0;
const COLORS: [&str; 8] =
    ["#555555", "#c0392b", "#b9770e", "#8e44ad", "#1b6ca8", "#27803b", "#16a085", "#d81b7a"];

impl Chart {
    /// A chart with a title, and a name for the horizontal axis.
    pub fn new(title: impl Into<String>, x_name: impl Into<String>) -> Self {
        Chart { title: title.into(), x_name: x_name.into(), x: Scale::Logarithmic, y: Scale::Linear }
    }

    /// Sets the scale of the horizontal axis.
    pub fn x(self, x: Scale) -> Self {
        Chart { x, ..self }
    }

    /// Sets the scale of the vertical axis.
    pub fn y(self, y: Scale) -> Self {
        Chart { y, ..self }
    }

    /// The chart with these curves, as the text of an SVG file.
    pub fn svg(&self, curves: &[Curve]) -> String {
        let points = || curves.iter().flat_map(|curve| curve.points.iter().chain(&curve.model).copied());
        let x = Axis::new(self.x, points().map(|point| point.0), MARGIN, WIDTH - LEGEND);
        let y = Axis::new(self.y, points().map(|point| point.1), HEIGHT - MARGIN, 40.0);
        let mut svg = self.frame();
        for value in [x.low, x.high] {
            text(&mut svg, x.at(value), HEIGHT - 40.0, "black", &label(value));
        }
        for value in [y.low, y.high] {
            text(&mut svg, 5.0, y.at(value), "black", &label(value));
        }
        for ((curve, color), row) in curves.iter().zip(COLORS.iter().cycle()).zip(0..) {
            let stroke = format!("fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"");
            for (points, dashes) in [(&curve.points, ""), (&curve.model, " stroke-dasharray=\"4\"")] {
                let at = |point: &(f64, f64)| format!("{:.1},{:.1}", x.at(point.0), y.at(point.1));
                let path = points.iter().map(at).collect::<Vec<_>>().join(" ");
                if !points.is_empty() {
                    // Writing to a string cannot fail.
                    let _ = writeln!(svg, "<polyline points=\"{path}\" {stroke}{dashes}/>");
                }
            }
            text(&mut svg, WIDTH - LEGEND + 20.0, 50.0 + 16.0 * f64::from(row), color, &curve.name);
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn frame(&self) -> String {
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
             font-size=\"12\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n",
        );
        text(&mut svg, MARGIN, 20.0, "black", &self.title);
        text(&mut svg, WIDTH / 2.0, HEIGHT - 15.0, "black", &self.x_name);
        svg
    }
}

fn text(svg: &mut String, x: f64, y: f64, color: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    // Writing to a string cannot fail.
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"{color}\">{text}</text>");
}

/// A value with at most three digits after the point; large ones in millions (M) or thousands of millions (G).
fn label(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        size if size >= 1e9 => (value / 1e9, " G"),
        size if size >= 1e6 => (value / 1e6, " M"),
        _ => (value, ""),
    };
    let digits = format!("{scaled:.3}");
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    format!("{digits}{unit}")
}

struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    fn new(scale: Scale, values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let has_place = |value: &f64| value.is_finite() && (scale == Scale::Linear || *value > 0.0);
        let bounds = values.filter(has_place).fold(None, |bounds, value| {
            let (low, high) = bounds.unwrap_or((value, value));
            Some((value.min(low), value.max(high)))
        });
        let (low, high) = bounds.unwrap_or((1.0, 1.0));
        Axis { scale, low, high, from, to }
    }

    fn at(&self, value: f64) -> f64 {
        let part = match self.scale {
            Scale::Logarithmic => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
            Scale::Linear => (value - self.low) / (self.high - self.low),
        };
        self.from + (self.to - self.from) * if part.is_finite() { part } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_where_they_belong() {
        let curve = Curve::new("akd", vec![(1.0, 10.0), (4.0, 20.0), (16.0, 30.0)]);
        let svg = Chart::new("Time", "groups").svg(&[curve]);
        // Logarithmic from left to right, linear from the bottom to the top.
        assert!(svg.contains("points=\"60.0,340.0 290.0,190.0 520.0,40.0\""), "{svg}");
        assert!(svg.contains(">akd</text>") && svg.ends_with("</svg>\n"));
        assert!(!svg.contains("dash"), "there is no model");
    }

    #[test]
    fn a_model_is_dashed_and_zero_is_where_a_logarithmic_axis_begins() {
        let curve = Curve::new("a & b", vec![(0.0, 1e6), (1.0, 1e8)]).with_model(vec![(1.0, 1e7)]);
        let svg =
            Chart::new("Rate", "x").x(Scale::Linear).y(Scale::Logarithmic).svg(std::slice::from_ref(&curve));
        assert!(svg.contains("points=\"60.0,340.0 520.0,40.0\""), "{svg}");
        let model =
            "points=\"520.0,190.0\" fill=\"none\" stroke=\"#555555\" stroke-width=\"2\" stroke-dasharray";
        assert!(svg.contains(model), "{svg}");
        assert!(svg.contains(">1 M<") && svg.contains(">100 M<") && svg.contains("a &amp; b"), "{svg}");
        let svg = Chart::new("Rate", "x").svg(&[curve]);
        assert!(svg.contains("points=\"60.0,340.0 60.0,40.0\""), "{svg}");
        // Nothing to draw is not an error.
        assert!(Chart::new("Rate", "x").svg(&[Curve::new("empty", Vec::new())]).contains(">empty<"));
    }
}
