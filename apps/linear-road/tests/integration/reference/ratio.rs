//! Exact fractions, so that no rounding stands between the specification and the answers.

/// A fraction in lowest terms, never negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    numerator: u128,
    denominator: u128,
}

impl Ratio {
    /// `numerator / denominator`; the denominator is not 0.
    pub fn new(numerator: u128, denominator: u128) -> Ratio {
        assert_ne!(denominator, 0, "a fraction of nothing");
        let divisor = greatest_common_divisor(numerator, denominator);
        Ratio { numerator: numerator / divisor, denominator: denominator / divisor }
    }

    /// The mean, each value weighing the same; `None` of no values.
    pub fn mean(values: &[Ratio]) -> Option<Ratio> {
        if values.is_empty() {
            return None;
        }
        let sum = values.iter().fold(Ratio::new(0, 1), |sum, value| sum.plus(*value));
        Some(Ratio::new(sum.numerator, sum.denominator * values.len() as u128))
    }

    /// The largest integer that is not larger.
    pub fn floor(self) -> u128 {
        self.numerator / self.denominator
    }

    fn plus(self, other: Ratio) -> Ratio {
        Ratio::new(
            self.numerator * other.denominator + other.numerator * self.denominator,
            self.denominator * other.denominator,
        )
    }
}

fn greatest_common_divisor(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}
