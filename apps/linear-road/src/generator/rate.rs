//! How the traffic grows over the run (section 13).

use super::config::GeneratorConfig;

/// Share of the peak rate at the start of the run.
const START: f64 = 0.01;
/// How fast the rate rises: the exponent of the elapsed share of the curve.
const EXPONENT: f64 = 0.55;
/// Seconds between two reports of a car, hence cars on the road per report and second.
const REPORT_INTERVAL_S: f64 = 30.0;

/// The number of cars that each expressway should carry, by second.
#[derive(Clone, Copy, Debug)]
pub(super) struct RateCurve {
    peak_reports_per_second: f64,
    length_s: f64,
}

impl RateCurve {
    pub(super) fn new(config: &GeneratorConfig) -> Self {
        RateCurve {
            peak_reports_per_second: f64::from(config.peak_reports_per_second),
            length_s: f64::from(config.curve_s()),
        }
    }

    /// Cars that one expressway should carry at `time_s`.
    pub(super) fn cars(&self, time_s: u32) -> f64 {
        let elapsed = (f64::from(time_s) / self.length_s).min(1.0);
        let part = START + (1.0 - START) * power(elapsed, EXPONENT);
        REPORT_INTERVAL_S * self.peak_reports_per_second * part
    }
}

/// `base` to the power of `exponent`, both in `0.0..=1.0`, with one square root per binary digit of the exponent:
/// unlike `powf`, it gives the same bits on every platform.
fn power(base: f64, exponent: f64) -> f64 {
    let (mut root, mut rest, mut result) = (base, exponent, 1.0);
    for _ in 0..f64::MANTISSA_DIGITS {
        root = root.sqrt();
        rest *= 2.0;
        if rest >= 1.0 {
            rest -= 1.0;
            result *= root;
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::power;

    #[test]
    fn power_agrees_with_the_library() {
        for base in [0.0, 1e-6, 0.01, 0.3, 0.5, 0.999, 1.0] {
            assert!((power(base, 0.55) - f64::powf(base, 0.55)).abs() < 1e-12, "base {base}");
        }
    }
}
