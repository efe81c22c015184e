//! Decimal numbers as PostgreSQL sends them, with digits to the base 10000.

const NEGATIVE: u16 = 0x4000;

/// Appends `value / 10^scale`, without a preceding length.
pub(super) fn write_numeric(value: i128, scale: i8, out: &mut Vec<u8>) {
    let fraction_digits = usize::from(scale.max(0).unsigned_abs());
    let mut digits = value.unsigned_abs().to_string().into_bytes();
    digits.resize(digits.len() + usize::from(scale.min(0).unsigned_abs()), b'0');
    if digits.len() < fraction_digits {
        digits.splice(..0, vec![b'0'; fraction_digits - digits.len()]);
    }
    let whole_digits = digits.len() - fraction_digits;
    // Groups of four digits, counted from the decimal point.
    digits.splice(..0, vec![b'0'; whole_digits.next_multiple_of(4) - whole_digits]);
    digits.resize(digits.len().next_multiple_of(4), b'0');
    let group = |digits: &[u8]| digits.iter().fold(0, |number, digit| number * 10 + u16::from(digit - b'0'));
    let mut groups: Vec<u16> = digits.chunks(4).map(group).collect();
    let mut weight = whole_digits.div_ceil(4) as i16 - 1;
    let leading = groups.iter().take_while(|group| **group == 0).count();
    groups.drain(..leading);
    weight -= leading as i16;
    groups.truncate(groups.len() - groups.iter().rev().take_while(|group| **group == 0).count());
    if groups.is_empty() {
        weight = 0;
    }
    out.extend((groups.len() as i16).to_be_bytes());
    out.extend(weight.to_be_bytes());
    out.extend(if value < 0 { NEGATIVE } else { 0 }.to_be_bytes());
    out.extend((fraction_digits as u16).to_be_bytes());
    groups.iter().for_each(|group| out.extend(group.to_be_bytes()));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads it back as the server does: the value times 10^scale.
    fn read(bytes: &[u8]) -> (i128, u16) {
        let words: Vec<i16> = bytes.chunks(2).map(|pair| i16::from_be_bytes([pair[0], pair[1]])).collect();
        let scale = words[3] as u16;
        assert_eq!(words[0] as usize, words.len() - 4);
        let mut value = 0_i128;
        for (index, group) in words[4..].iter().enumerate() {
            // The group's last digit stands for 10^(4 * place).
            let place = 4 * (i32::from(words[1]) - index as i32) + i32::from(scale);
            value += match place {
                0.. => i128::from(*group) * 10_i128.pow(place as u32),
                _ => i128::from(*group) / 10_i128.pow(place.unsigned_abs()),
            };
        }
        (if words[2] as u16 == NEGATIVE { -value } else { value }, scale)
    }

    proptest! {
        #[test]
        fn every_value_is_read_back(
            value in -(10_i128.pow(37))..10_i128.pow(37),
            shift in 0..38_u32,
            scale in 0..=38_i8,
        ) {
            let value = value / 10_i128.pow(shift);
            let mut out = Vec::new();
            write_numeric(value, scale, &mut out);
            prop_assert_eq!(read(&out), (value, scale as u16));
        }
    }

    #[test]
    fn a_negative_scale_adds_zeros() {
        let mut out = Vec::new();
        write_numeric(-12, -3, &mut out);
        assert_eq!(read(&out), (-12_000, 0));
    }
}
