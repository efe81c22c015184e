//! A profile as bytes, to be stored between runs.

use tidemill_core::error::Cause;
use tidemill_core::{SnapshotReader, SnapshotWriter};

use crate::cost::{Proportions, RouterCosts, SplitterCosts};
use crate::profile::SplitProfile;

const VERSION: u8 = 1;

impl SplitProfile {
    /// Its bytes, with their version and checksum.
    ///
    /// ```
    /// use tidemill_split::cost::{Proportions, RouterCosts, SplitterCosts};
    /// use tidemill_split::profile::SplitProfile;
    /// let profile = SplitProfile {
    ///     splitter: SplitterCosts { consume_ns: 2.0, process_ns: 3.0, emit_ns: 5.0 },
    ///     router: RouterCosts { read_ns: 0.0, split_ns: 0.0, emit_ns: 100.0 },
    ///     parts: Proportions::counted(8, 1, 1),
    ///     query_ns: 20.0,
    /// };
    /// assert_eq!(SplitProfile::from_bytes(&profile.to_bytes()).unwrap(), profile);
    /// ```
    pub fn to_bytes(&self) -> Vec<u8> {
        let SplitProfile { splitter, router, parts, query_ns } = self;
        let SplitterCosts { consume_ns, process_ns, emit_ns } = splitter;
        let mut writer = SnapshotWriter::default();
        writer.u8(VERSION);
        let costs = [*consume_ns, *process_ns, *emit_ns, router.read_ns, router.split_ns, router.emit_ns];
        let numbers = costs.into_iter().chain([parts.routed(), parts.broadcast(), *query_ns]);
        numbers.for_each(|number| writer.u64(number.to_bits()));
        writer.finish()
    }

    /// Reads what [`to_bytes`](Self::to_bytes) wrote.
    ///
    /// # Errors
    /// If the bytes are damaged or of another version, or describe impossible costs.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Cause> {
        let mut reader = SnapshotReader::new(bytes)?;
        let damaged = |what: &str| {
            Cause::operation(format!("a stored profile cannot be used: {what}; measure it again"))
        };
        if reader.u8()? != VERSION {
            return Err(damaged("this program does not know its version"));
        }
        let mut number = || {
            let number = f64::from_bits(reader.u64()?);
            let is_cost = number.is_finite() && number >= 0.0;
            if is_cost { Ok(number) } else { Err(damaged("a cost is negative or not a number")) }
        };
        let splitter = SplitterCosts { consume_ns: number()?, process_ns: number()?, emit_ns: number()? };
        let router = RouterCosts { read_ns: number()?, split_ns: number()?, emit_ns: number()? };
        let parts =
            Proportions::new(number()?, number()?).map_err(|_| damaged("its parts add up to more than 1"))?;
        let query_ns = number()?;
        if reader.is_empty() {
            Ok(SplitProfile { splitter, router, parts, query_ns })
        } else {
            Err(damaged("it has bytes after its end"))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn numbers() -> impl Strategy<Value = [f64; 9]> {
        prop::array::uniform9(prop_oneof![0.0..0.5f64, 0.0..1e6f64, any::<f64>()])
    }

    proptest! {
        #[test]
        fn what_is_read_are_costs_and_what_was_written(numbers in numbers(), more in any::<bool>()) {
            let mut writer = SnapshotWriter::default();
            writer.u8(VERSION);
            numbers.iter().for_each(|number| writer.u64(number.to_bits()));
            if more {
                writer.u8(0);
            }
            let bytes = writer.finish();
            let are_costs = numbers.iter().all(|number| number.is_finite() && *number >= 0.0);
            let are_parts = numbers[6] + numbers[7] <= 1.0 + 1e-9;
            match SplitProfile::from_bytes(&bytes) {
                Ok(profile) => prop_assert!(are_costs && are_parts && !more && profile.to_bytes() == bytes),
                Err(_) => prop_assert!(!(are_costs && are_parts) || more),
            }
        }
    }

    #[test]
    fn another_version_and_damage_are_errors() {
        let mut writer = SnapshotWriter::default();
        writer.u8(VERSION + 1);
        (0..9).for_each(|_| writer.u64(0));
        assert!(SplitProfile::from_bytes(&writer.finish()).unwrap_err().to_string().contains("version"));
        assert!(SplitProfile::from_bytes(&[]).is_err());
    }
}
