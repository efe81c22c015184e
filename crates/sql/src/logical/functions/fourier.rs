//! The discrete Fourier transform, by halves: the transform of a vector is combined from those of its elements at even
//! and at odd positions. Whoever computes the halves, the result is the same to the last bit.

use std::f64::consts::PI;

use datafusion::common::{Result, exec_err};

use crate::planning_limits::go_on;

/// Behind a transform of this many numbers it is looked whether the result is still wanted.
const LONG: usize = 1 << 15;

/// The longest vector of odd length: its cost grows with the square of the length.
const ODD_LENGTH_MAX: usize = 4096;

/// Complex numbers, as their real and imaginary parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Spectrum {
    pub re: Vec<f64>,
    pub im: Vec<f64>,
}

impl Spectrum {
    /// The number of complex numbers.
    pub fn len(&self) -> usize {
        self.re.len()
    }
}

/// The transform of a vector of real numbers: `X[k] = sum over j of x[j] exp(-2 pi i j k / n)`.
pub(crate) fn transform(vector: &[f64]) -> Result<Spectrum> {
    if vector.len() >= LONG {
        go_on()?;
    }
    if vector.len() % 2 == 1 {
        return of_odd_length(vector);
    }
    let half = |first: usize| vector.iter().skip(first).step_by(2).copied().collect::<Vec<f64>>();
    if vector.is_empty() {
        return Ok(Spectrum::default());
    }
    combine(&transform(&half(0))?, &transform(&half(1))?)
}

/// The transform of a vector, from those of its elements at even and at odd positions.
pub(crate) fn combine(even: &Spectrum, odd: &Spectrum) -> Result<Spectrum> {
    let half = even.len();
    if odd.len() != half {
        let lengths = format!("{half} and {}", odd.len());
        return exec_err!("fft_combine() takes two spectra of equal length, found {lengths} numbers");
    }
    let mut whole = Spectrum { re: vec![0.0; 2 * half], im: vec![0.0; 2 * half] };
    for k in 0..half {
        let (sin, cos) = turn(k, 2 * half);
        let re = odd.re[k] * cos - odd.im[k] * sin;
        let im = odd.re[k] * sin + odd.im[k] * cos;
        (whole.re[k], whole.im[k]) = (even.re[k] + re, even.im[k] + im);
        (whole.re[k + half], whole.im[k + half]) = (even.re[k] - re, even.im[k] - im);
    }
    Ok(whole)
}

/// Computed by definition.
fn of_odd_length(vector: &[f64]) -> Result<Spectrum> {
    let length = vector.len();
    if length > ODD_LENGTH_MAX {
        return exec_err!(
            "fft() divides a vector into halves, and {length} numbers cannot be divided; make the length a \
             power of two"
        );
    }
    let mut spectrum = Spectrum::default();
    for k in 0..length {
        let (mut re, mut im) = (0.0, 0.0);
        for (j, value) in vector.iter().enumerate() {
            let (sin, cos) = turn(j * k % length, length);
            (re, im) = (re + value * cos, im + value * sin);
        }
        spectrum.re.push(re);
        spectrum.im.push(im);
    }
    Ok(spectrum)
}

/// Sine and cosine of `-2 pi k / n` for `k` below `n`; exact for quarter turns.
fn turn(k: usize, n: usize) -> (f64, f64) {
    match 4 * k {
        0 => (0.0, 1.0),
        quarters if quarters == n => (-1.0, 0.0),
        quarters if quarters == 2 * n => (0.0, -1.0),
        quarters if quarters == 3 * n => (1.0, 0.0),
        _ => (-2.0 * PI * k as f64 / n as f64).sin_cos(),
    }
}
