//! Values that a snapshot can hold, so that state made of them needs no code of its own to be kept.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::error::Cause;
use crate::snapshot::{SnapshotReader, SnapshotWriter, damaged};

/// A value that a snapshot can hold.
///
/// Numbers, `bool`, `String`, and tuples, options, vectors, queues and ordered maps of such values are states. Hash maps
/// are none: their order differs from run to run, and results must not.
///
/// ```
/// use std::collections::BTreeMap;
/// use tidemill_core::{SnapshotReader, SnapshotWriter, State};
///
/// let visits = BTreeMap::from([("home".to_owned(), (3_u64, 0.5_f64))]);
/// let mut writer = SnapshotWriter::default();
/// visits.write(&mut writer);
/// let bytes = writer.finish();
/// let read = BTreeMap::<String, (u64, f64)>::read(&mut SnapshotReader::new(&bytes).unwrap()).unwrap();
/// assert_eq!(read, visits);
/// ```
pub trait State: Sized + Send + 'static {
    /// Appends the value.
    fn write(&self, writer: &mut SnapshotWriter);

    /// Reads what [`write`](State::write) wrote.
    ///
    /// # Errors
    /// If the bytes end before, or are not such a value.
    fn read(reader: &mut SnapshotReader<'_>) -> Result<Self, Cause>;
}

macro_rules! integers {
    ($($type:ty, $unsigned:ty, $method:ident);*) => {
        $(impl State for $type {
            fn write(&self, writer: &mut SnapshotWriter) {
                writer.$method(*self as $unsigned);
            }
            fn read(reader: &mut SnapshotReader<'_>) -> Result<Self, Cause> {
                Ok(reader.$method()? as $type)
            }
        })*
    };
}

integers!(
    u8, u8, u8; u16, u16, u16; u32, u32, u32; u64, u64, u64;
    i8, u8, u8; i16, u16, u16; i32, u32, u32; i64, i64, i64
);

impl State for f64 {
    fn write(&self, writer: &mut SnapshotWriter) {
        writer.u64(self.to_bits());
    }
    fn read(reader: &mut SnapshotReader<'_>) -> Result<Self, Cause> {
        Ok(f64::from_bits(reader.u64()?))
    }
}

impl State for f32 {
    fn write(&self, writer: &mut SnapshotWriter) {
        writer.u32(self.to_bits());
    }
    fn read(reader: &mut SnapshotReader<'_>) -> Result<Self, Cause> {
        Ok(f32::from_bits(reader.u32()?))
    }
}

impl State for bool {
    fn write(&self, writer: &mut SnapshotWriter) {
        writer.u8(u8::from(*self));
    }
    fn read(reader: &mut SnapshotReader<'_>) -> Result<Self, Cause> {
        match reader.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(damaged(&format!("{other} is neither true nor false"))),
        }
    }
}

impl State for String {
    fn write(&self, writer: &mut SnapshotWriter) {
        writer.bytes(self.as_bytes());
    }
    fn read(reader: &mut SnapshotReader<'_>) -> Result<Self, Cause> {
        reader.text()
    }
}

impl<T: State> State for Option<T> {
    fn write(&self, writer: &mut SnapshotWriter) {
        self.is_some().write(writer);
        self.iter().for_each(|value| value.write(writer));
    }
    fn read(reader: &mut SnapshotReader<'_>) -> Result<Self, Cause> {
        bool::read(reader)?.then(|| T::read(reader)).transpose()
    }
}

macro_rules! collections {
    ($(($($bound:tt)*) $type:ty;)*) => {
        $(impl<$($bound)*> State for $type {
            fn write(&self, writer: &mut SnapshotWriter) {
                writer.u64(self.len() as u64);
                self.iter().for_each(|value| Entry::write(&value, writer));
            }
            fn read(reader: &mut SnapshotReader<'_>) -> Result<Self, Cause> {
                let count = reader.u64()?;
                // Collected one by one: a count that is damaged must not reserve memory.
                (0..count).map(|_| State::read(reader)).collect()
            }
        })*
    };
}

collections!(
    (T: State) Vec<T>;
    (T: State) VecDeque<T>;
    (T: State + Ord) BTreeSet<T>;
    (K: State + Ord, V: State) BTreeMap<K, V>;
);

/// What iterating over a collection gives by reference.
trait Entry {
    fn write(&self, writer: &mut SnapshotWriter);
}

impl<T: State> Entry for &T {
    fn write(&self, writer: &mut SnapshotWriter) {
        State::write(*self, writer);
    }
}

impl<K: State, V: State> Entry for (&K, &V) {
    fn write(&self, writer: &mut SnapshotWriter) {
        State::write(self.0, writer);
        State::write(self.1, writer);
    }
}

macro_rules! tuples {
    ($(($($name:ident $index:tt)*))*) => {
        $(impl<$($name: State),*> State for ($($name,)*) {
            fn write(&self, writer: &mut SnapshotWriter) {
                $(self.$index.write(writer);)*
            }
            fn read(reader: &mut SnapshotReader<'_>) -> Result<Self, Cause> {
                Ok(($($name::read(reader)?,)*))
            }
        })*
    };
}

tuples!((A 0) (A 0 B 1) (A 0 B 1 C 2) (A 0 B 1 C 2 D 3) (A 0 B 1 C 2 D 3 E 4) (A 0 B 1 C 2 D 3 E 4 F 5));

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip<T: State + PartialEq + std::fmt::Debug>(value: T) {
        let mut writer = SnapshotWriter::default();
        value.write(&mut writer);
        let bytes = writer.finish();
        let mut reader = SnapshotReader::new(&bytes).unwrap();
        assert_eq!(T::read(&mut reader).unwrap(), value);
        assert!(reader.is_empty());
    }

    #[test]
    fn values_are_read_as_they_were_written() {
        round_trip((u8::MAX, i8::MIN, i16::MIN, i32::MIN, i64::MIN, u64::MAX));
        round_trip((f64::NEG_INFINITY, -0.0_f32, true, Some("é".to_owned()), None::<u8>));
        round_trip(VecDeque::from([vec![1_u16], vec![], vec![2, 3]]));
        round_trip(BTreeMap::from([(BTreeSet::from([1_u8, 2]), "a".to_owned())]));
    }

    #[test]
    fn damaged_bytes_are_refused() {
        let read = |write: fn(&mut SnapshotWriter)| {
            let mut writer = SnapshotWriter::default();
            write(&mut writer);
            let bytes = writer.finish();
            Vec::<(bool, String)>::read(&mut SnapshotReader::new(&bytes).unwrap())
        };
        assert!(read(|writer| writer.u64(u64::MAX)).is_err());
        assert!(read(|writer| [1, 2].iter().for_each(|value| writer.u64(*value))).is_err());
        let not_text = |writer: &mut SnapshotWriter| {
            writer.u64(1);
            writer.u8(1);
            writer.bytes(&[0xFF]);
        };
        assert!(read(not_text).unwrap_err().to_string().contains("UTF-8"));
    }
}
