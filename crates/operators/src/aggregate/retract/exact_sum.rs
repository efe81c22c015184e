//! Sums of floating-point numbers without rounding.

use tidemill_core::error::Cause;
use tidemill_core::{SnapshotReader, SnapshotWriter, State};

/// The weight of the lowest bit of the first digit is 2 to this power: that of the smallest number.
const LOWEST: i64 = -1074;
/// The number of bits of a digit.
const DIGIT_BITS: u32 = 32;
const DIGIT: u64 = u32::MAX as u64;
/// After this many additions of less than 2^32 each, a digit of 63 bits is near its limit.
const ADDITIONS_MAX: u32 = 1 << 30;
/// The digits that a division adds, so that a quotient has more bits than a result.
const FRACTION_DIGITS: usize = 4;

/// So many digits stand beside the sum; more have memory of their own.
const FEW_DIGITS: usize = 4;

/// The exact sum of finite numbers, in digits of 32 bits that are carried over late.
#[derive(Clone, Debug, Default)]
pub(super) struct ExactSum {
    /// The place of the first digit that is stored, counted from the lowest one that any number has.
    first: u32,
    digits: Digits,
    additions: u32,
}

/// The digits of a sum, the lowest first.
#[derive(Clone, Debug)]
enum Digits {
    Few(u8, [i64; FEW_DIGITS]),
    Many(Vec<i64>),
}

impl Default for Digits {
    fn default() -> Digits {
        Digits::Few(0, [0; FEW_DIGITS])
    }
}

impl From<Vec<i64>> for Digits {
    fn from(digits: Vec<i64>) -> Digits {
        let mut few = [0; FEW_DIGITS];
        match few.get_mut(..digits.len()) {
            Some(place) => {
                place.copy_from_slice(&digits);
                Digits::Few(digits.len() as u8, few)
            }
            None => Digits::Many(digits),
        }
    }
}

impl Digits {
    #[inline]
    fn get(&self) -> &[i64] {
        match self {
            Digits::Few(count, digits) => &digits[..usize::from(*count)],
            Digits::Many(digits) => digits,
        }
    }

    #[inline]
    fn get_mut(&mut self) -> &mut [i64] {
        match self {
            Digits::Few(count, digits) => &mut digits[..usize::from(*count)],
            Digits::Many(digits) => digits,
        }
    }

    /// Puts zeros before and after the digits.
    fn widen(&mut self, before: usize, after: usize) {
        let digits = self.get();
        let mut wide = Vec::with_capacity(before + digits.len() + after);
        wide.resize(before, 0);
        wide.extend_from_slice(digits);
        wide.resize(before + digits.len() + after, 0);
        *self = wide.into();
    }
}

/// Memory for the digits of results, which is used again for each of them.
#[derive(Default)]
pub(super) struct Scratch {
    magnitude: Vec<u64>,
    quotient: Vec<u64>,
}

impl ExactSum {
    /// Bytes of memory held beside the value itself.
    pub fn bytes(&self) -> usize {
        match &self.digits {
            Digits::Few(..) => 0,
            Digits::Many(digits) => digits.capacity() * size_of::<i64>(),
        }
    }

    /// Adds a finite number `weight` times.
    pub fn add(&mut self, value: f64, weight: i64) {
        let bits = value.to_bits();
        let (exponent, fraction) = ((bits >> 52) & 0x7FF, bits & ((1 << 52) - 1));
        let (mantissa, shift) = match exponent {
            0 => (fraction, 0),
            exponent => (fraction | 1 << 52, exponent as u32 - 1),
        };
        if mantissa == 0 || weight == 0 {
            return;
        }
        // At most 53 and 63 bits.
        let mut rest = u128::from(mantissa) * u128::from(weight.unsigned_abs());
        let sign = if value.is_sign_negative() == (weight < 0) { 1 } else { -1 };
        let (place, offset) = (shift / DIGIT_BITS, shift % DIGIT_BITS);
        let count = (128 - rest.leading_zeros() + offset).div_ceil(DIGIT_BITS);
        let start = self.make_room(place, count);
        let digits = &mut self.digits.get_mut()[start..start + count as usize];
        digits[0] += sign * (((rest as u64 & DIGIT) << offset) & DIGIT) as i64;
        rest >>= DIGIT_BITS - offset;
        for digit in &mut digits[1..] {
            *digit += sign * (rest as u64 & DIGIT) as i64;
            rest >>= DIGIT_BITS;
        }
        self.additions += 1;
        if self.additions == ADDITIONS_MAX {
            self.carry();
        }
    }

    /// Makes room for digits from this place on; returns the index of the first.
    fn make_room(&mut self, place: u32, count: u32) -> usize {
        let digits = self.digits.get().len();
        if digits == 0 {
            self.first = place;
        }
        let before = self.first.saturating_sub(place);
        self.first -= before;
        let start = (place - self.first) as usize;
        let after = (start + count as usize).saturating_sub(before as usize + digits);
        if before > 0 || after > 0 {
            self.digits.widen(before as usize, after);
        }
        start
    }

    /// Carries over, so that no digit has more than 32 bits. The last one has the sign.
    fn carry(&mut self) {
        self.additions = 0;
        let Some((last, others)) = self.digits.get_mut().split_last_mut() else { return };
        let mut carry = 0;
        for digit in others {
            let sum = *digit + carry;
            (*digit, carry) = (sum & DIGIT as i64, sum >> DIGIT_BITS);
        }
        *last += carry;
        if i32::try_from(*last).is_err() {
            let carry = *last >> DIGIT_BITS;
            *last &= DIGIT as i64;
            self.digits.widen(0, 1);
            if let Some(top) = self.digits.get_mut().last_mut() {
                *top = carry;
            }
        }
    }

    /// Puts the absolute value in digits, the lowest first, and returns whether the sum is negative.
    fn magnitude(&self, digits: &mut Vec<u64>) -> bool {
        let mut carried = |sign: i64| {
            let mut carry = 0;
            digits.clear();
            digits.extend(self.digits.get().iter().map(|digit| {
                let sum = sign * *digit + carry;
                carry = sum >> DIGIT_BITS;
                sum as u64 & DIGIT
            }));
            carry
        };
        let mut carry = carried(1);
        let is_negative = carry < 0;
        if is_negative {
            carry = carried(-1);
        }
        digits.extend([carry as u64 & DIGIT, carry as u64 >> DIGIT_BITS]);
        is_negative
    }

    /// The number nearest to the sum; of two equally near ones, the even one.
    pub fn value(&self, scratch: &mut Scratch) -> f64 {
        let is_negative = self.magnitude(&mut scratch.magnitude);
        let value = rounded(&scratch.magnitude, self.lowest_exponent(), false);
        if is_negative { -value } else { value }
    }

    /// The number nearest to the sum divided by a count.
    pub fn mean(&self, count: u64, scratch: &mut Scratch) -> f64 {
        let is_negative = self.magnitude(&mut scratch.magnitude);
        let (digits, quotient) = (&scratch.magnitude, &mut scratch.quotient);
        quotient.clear();
        quotient.resize(digits.len() + FRACTION_DIGITS, 0);
        let mut rest = 0;
        for (index, place) in quotient.iter_mut().enumerate().rev() {
            let digit = index.checked_sub(FRACTION_DIGITS).map_or(0, |index| digits[index]);
            if count <= DIGIT {
                // The rest is smaller than the count. Dividing words is several times as fast.
                let dividend = rest << DIGIT_BITS | digit;
                (*place, rest) = (dividend / count, dividend % count);
            } else {
                let dividend = u128::from(rest) << DIGIT_BITS | u128::from(digit);
                let count = u128::from(count);
                (*place, rest) = ((dividend / count) as u64, (dividend % count) as u64);
            }
        }
        let lowest = self.lowest_exponent() - FRACTION_DIGITS as i64 * i64::from(DIGIT_BITS);
        let value = rounded(quotient, lowest, rest != 0);
        if is_negative { -value } else { value }
    }

    fn lowest_exponent(&self) -> i64 {
        LOWEST + i64::from(self.first) * i64::from(DIGIT_BITS)
    }
}

/// Returns the number nearest to a value in digits. Their lowest bit stands for 2 to the power of `lowest`; `has_more` says that the
/// value is a little larger than the digits.
fn rounded(digits: &[u64], lowest: i64, has_more: bool) -> f64 {
    let Some(top) = digits.iter().rposition(|digit| *digit != 0) else { return 0.0 };
    let bits = top as i64 * i64::from(DIGIT_BITS) + i64::from(64 - digits[top].leading_zeros());
    // The exponent of the last bit of the result, and its place in the digits.
    let last = (lowest + bits - 53).max(LOWEST);
    let place = last - lowest;
    if place <= 0 {
        // It has few bits, and a quotient has many: nothing is lost.
        let low = digits.iter().take(3).enumerate();
        let value = low.fold(0_u128, |sum, (index, digit)| sum | u128::from(*digit) << (32 * index));
        return ((value << -place) as f64) * power_of_two(last);
    }
    let (index, offset) = ((place / 32) as usize, (place % 32) as u32);
    let digit = |index: usize| digits.get(index).copied().unwrap_or(0);
    let window =
        u128::from(digit(index)) | u128::from(digit(index + 1)) << 32 | u128::from(digit(index + 2)) << 64;
    let mut mantissa = (window >> offset) as u64;
    // What is below the last bit, in halves of it.
    let (half_index, half_offset) = (((place - 1) / 32) as usize, ((place - 1) % 32) as u32);
    let has_half = digit(half_index) >> half_offset & 1 == 1;
    let is_more_than_half = has_more
        || digit(half_index) & ((1 << half_offset) - 1) != 0
        || digits[..half_index].iter().any(|digit| *digit != 0);
    if has_half && (is_more_than_half || mantissa & 1 == 1) {
        mantissa += 1;
    }
    if last > 971 { f64::INFINITY } else { mantissa as f64 * power_of_two(last) }
}

/// 2 to a power from -1074 to 971.
fn power_of_two(exponent: i64) -> f64 {
    if exponent < -1022 {
        f64::from_bits(1 << (exponent - LOWEST))
    } else {
        f64::from_bits(((exponent + 1023) as u64) << 52)
    }
}

impl State for ExactSum {
    fn write(&self, writer: &mut SnapshotWriter) {
        let mut carried = self.clone();
        carried.carry();
        carried.first.write(writer);
        carried.digits.get().to_vec().write(writer);
    }

    fn read(reader: &mut SnapshotReader<'_>) -> Result<Self, Cause> {
        let (first, digits) = (u32::read(reader)?, Vec::<i64>::read(reader)?);
        // A damaged snapshot must not overflow later.
        let near = digits.iter().take(DIGITS_MAX as usize);
        let digits: Vec<i64> = near.map(|digit| (*digit).clamp(-(DIGIT as i64), DIGIT as i64)).collect();
        Ok(ExactSum { first: first.min(DIGITS_MAX), digits: digits.into(), additions: 0 })
    }
}

/// More digits than any number has.
const DIGITS_MAX: u32 = 80;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sum(values: &[(f64, i64)]) -> ExactSum {
        let mut sum = ExactSum::default();
        values.iter().for_each(|(value, weight)| sum.add(*value, *weight));
        sum
    }

    #[test]
    fn what_cancels_out_leaves_the_rest() {
        for values in [[1e20, 1.0, -1e20], [1.0, -1e20, 1e20], [-1e20, 1e20, 1.0]] {
            assert_eq!(sum(&values.map(|value| (value, 1))).value(&mut Scratch::default()), 1.0);
        }
        assert_eq!(sum(&[(f64::MAX, 3), (5e-324, 1), (f64::MAX, -3)]).value(&mut Scratch::default()), 5e-324);
        assert_eq!(sum(&[(f64::MAX, 2)]).value(&mut Scratch::default()), f64::INFINITY);
        assert_eq!(sum(&[(f64::MAX, -2)]).value(&mut Scratch::default()), f64::NEG_INFINITY);
        assert_eq!(sum(&[(f64::MAX, 2)]).mean(2, &mut Scratch::default()), f64::MAX);
        assert_eq!(
            sum(&[(f64::MAX, i64::MAX), (f64::MAX, i64::MIN)]).value(&mut Scratch::default()),
            -f64::MAX
        );
        assert_eq!(sum(&[]).value(&mut Scratch::default()).to_bits(), 0);
        assert_eq!(sum(&[(-0.0, 1)]).value(&mut Scratch::default()).to_bits(), 0);
    }

    #[test]
    fn a_tie_goes_to_the_even_number() {
        let half = 2_f64.powi(-53);
        assert_eq!(sum(&[(1.0, 1), (half, 1)]).value(&mut Scratch::default()), 1.0);
        assert_eq!(sum(&[(1.0, 1), (half, 1), (5e-324, 1)]).value(&mut Scratch::default()), 1.0 + 2.0 * half);
        assert_eq!(sum(&[(1.0 + 2.0 * half, 1), (half, 1)]).value(&mut Scratch::default()), 1.0 + 4.0 * half);
        // A third, and a tenth of the smallest number.
        assert_eq!(sum(&[(1.0, 1)]).mean(3, &mut Scratch::default()), 1.0 / 3.0);
        assert_eq!(sum(&[(5e-324, 1)]).mean(10, &mut Scratch::default()), 0.0);
        assert_eq!(sum(&[(5e-324, 3)]).mean(2, &mut Scratch::default()), 1e-323);
    }

    #[test]
    fn many_additions_are_carried_over() {
        let mut sum = ExactSum { additions: ADDITIONS_MAX - 2, ..sum(&[(-1.5, 1)]) };
        (0..8).for_each(|_| sum.add(-2.25, 1));
        assert_eq!(sum.value(&mut Scratch::default()), -19.5);
        assert_eq!(sum.additions, 6);
    }

    /// Any finite number, or one of similar size as others.
    fn number() -> impl Strategy<Value = f64> {
        let any = any::<u64>().prop_map(f64::from_bits).prop_filter("finite", |value| value.is_finite());
        prop_oneof![any, -1e3..1e3_f64, (-1000..1000_i32).prop_map(|n| f64::from(n) * 0.1)]
    }

    proptest! {
        #[test]
        fn one_number_and_two_are_as_ieee_adds(a in number(), b in number()) {
            prop_assert_eq!(sum(&[(a, 1)]).value(&mut Scratch::default()), a + 0.0);
            prop_assert_eq!(sum(&[(a, 1), (b, 1)]).value(&mut Scratch::default()), a + b + 0.0);
            prop_assert_eq!(sum(&[(a, 2)]).mean(2, &mut Scratch::default()), a + 0.0);
        }

        /// The oracle: integers, which numbers from -2^40 to 2^40 in steps of 2^-40 are.
        #[test]
        fn it_is_the_sum_of_integers(
            values in prop::collection::vec((-(1_i128 << 80)..1_i128 << 80, -1000..1000_i64), 0..20),
            count in 1..1000_u64,
        ) {
            let scale = 2_f64.powi(-40);
            // Values of at most 53 bits.
            let values: Vec<(i128, i64)> =
                values.iter().map(|(value, weight)| ((*value as f64) as i128, *weight)).collect();
            let floats: Vec<(f64, i64)> =
                values.iter().map(|(value, weight)| (*value as f64 * scale, *weight)).collect();
            let total: i128 = values.iter().map(|(value, weight)| value * i128::from(*weight)).sum();
            let found = sum(&floats);
            // The conversion of an integer rounds to the nearest, and to even.
            prop_assert_eq!(found.value(&mut Scratch::default()), total as f64 * scale);
            let mean = found.mean(count, &mut Scratch::default());
            // No number is nearer: the distances times twice the count, without rounding.
            let exact = |value: f64| (value / scale * 1024.0) as i128;
            if total != 0 && mean.abs() < 2_f64.powi(60) {
                let distance = |value: f64| (exact(value) * i128::from(count) - total * 1024).abs();
                let near = [mean.next_up(), mean.next_down()].map(distance);
                let is_whole = |value: f64| (value / scale * 1024.0).fract() == 0.0;
                if is_whole(mean) && is_whole(mean.next_up()) && is_whole(mean.next_down()) {
                    prop_assert!(distance(mean) <= near[0].min(near[1]), "{mean}");
                }
            }
            let mut writer = SnapshotWriter::default();
            found.write(&mut writer);
            let bytes = writer.finish();
            let read = ExactSum::read(&mut SnapshotReader::new(&bytes).unwrap()).unwrap();
            prop_assert_eq!(read.value(&mut Scratch::default()), found.value(&mut Scratch::default()));
        }

        /// A number that goes leaves what would be there had it never come.
        #[test]
        fn what_goes_leaves_no_trace(values in prop::collection::vec(number(), 1..20), gone in number()) {
            let bits = |values: &[(f64, i64)]| sum(values).value(&mut Scratch::default()).to_bits();
            let kept: Vec<(f64, i64)> = values.iter().map(|value| (*value, 1)).collect();
            let mut all = kept.clone();
            all.insert(values.len() / 2, (gone, 1));
            all.push((gone, -1));
            prop_assert_eq!(bits(&all), bits(&kept));
            all.reverse();
            prop_assert_eq!(bits(&all), bits(&kept));
        }
    }
}
