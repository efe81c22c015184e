//! A cut as bytes, in the log of cuts and in snapshots.

use tidemill_core::fields::{Fields, Malformed, PutFields, TakeFields, take_all};
use tidemill_core::{Cut, SplitChange};

/// Version 1 had no split plans, and until version 2 time stood still while all gateways were idle; both are still read. A cut at
/// which no gateway had ended is written as version 3.
const VERSION: u8 = 4;
const VERSION_WITHOUT_ENDS: u8 = 3;
const SNAPSHOT: u8 = 1;
const LAST: u8 = 2;

/// Writes a cut.
pub(crate) fn encode_cut(cut: &Cut, bytes: &mut Vec<u8>) {
    let version = match (cut.stands_still_when_idle, cut.ended_at.is_empty()) {
        (true, _) => 2,
        (false, true) => VERSION_WITHOUT_ENDS,
        (false, false) => VERSION,
    };
    bytes.put_u8(version);
    bytes.put_u8(if cut.snapshot { SNAPSHOT } else { 0 } | if cut.last { LAST } else { 0 });
    bytes.put_u64(cut.cycle);
    bytes.put_u64(cut.closed_at_ns);
    bytes.put_u32(cut.positions.len() as u32);
    cut.positions.iter().for_each(|position| bytes.put_u64(*position));
    bytes.put_u32(cut.watermarks.len() as u32);
    cut.watermarks.iter().for_each(|watermark| bytes.put_i64(*watermark));
    bytes.put_u32(cut.idle.len() as u32);
    cut.idle.iter().for_each(|idle| bytes.put_u8(u8::from(*idle)));
    bytes.put_u32(cut.splits.len() as u32);
    for change in &cut.splits {
        bytes.put_bytes(change.operator.as_bytes());
        bytes.put_u32(change.input);
        bytes.put_bytes(&change.plan);
    }
    if version == VERSION {
        bytes.put_u32(cut.ended_at.len() as u32);
        cut.ended_at.iter().for_each(|time| bytes.put_i64(*time));
    }
}

/// Reads what [`encode_cut`] wrote. Another version counts as damage, because the file would have another version too.
pub(crate) fn decode_cut(fields: &mut Fields) -> Result<Cut, Malformed> {
    let version = fields.u8()?;
    if !(1..=VERSION).contains(&version) {
        return Err(Malformed);
    }
    let flags = fields.u8()?;
    let (cycle, closed_at_ns) = (fields.u64()?, fields.u64()?);
    let positions = list(fields, Fields::u64)?;
    let watermarks = list(fields, Fields::i64)?;
    let idle = list(fields, |fields| Ok(fields.u8()? != 0))?;
    let splits = if version == 1 { Vec::new() } else { list(fields, split_change)? };
    let ended_at = if version < VERSION { Vec::new() } else { list(fields, Fields::i64)? };
    let (snapshot, last) = (flags & SNAPSHOT != 0, flags & LAST != 0);
    let stands_still_when_idle = version < 3;
    Ok(Cut {
        cycle,
        positions,
        watermarks,
        idle,
        ended_at,
        stands_still_when_idle,
        closed_at_ns,
        snapshot,
        last,
        splits,
    })
}

fn split_change(fields: &mut Fields) -> Result<SplitChange, Malformed> {
    Ok(SplitChange { operator: fields.text()?, input: fields.u32()?, plan: fields.bytes()?.to_vec() })
}

fn list<'a, T>(
    fields: &mut Fields<'a>,
    one: impl Fn(&mut Fields<'a>) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let count = fields.u32()?;
    take_all(fields, count.into(), one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_says_how_time_goes_on_while_all_are_idle() {
        for stands_still_when_idle in [false, true] {
            let cut = Cut { idle: vec![true], watermarks: vec![7], stands_still_when_idle, ..Cut::first() };
            let mut bytes = Vec::new();
            encode_cut(&cut, &mut bytes);
            assert_eq!(bytes[0] == 2, stands_still_when_idle, "earlier versions wrote a 2");
            assert_eq!(decode_cut(&mut Fields(&bytes)).as_ref(), Ok(&cut));
        }
    }

    #[test]
    fn a_record_says_how_far_sources_were_that_have_ended() {
        let cut = Cut { watermarks: vec![i64::MAX, 7], ended_at: vec![60, i64::MIN], ..Cut::first() };
        let mut bytes = Vec::new();
        encode_cut(&cut, &mut bytes);
        assert_eq!(decode_cut(&mut Fields(&bytes)).as_ref(), Ok(&cut));
        bytes.truncate(bytes.len() - 1);
        assert_eq!(decode_cut(&mut Fields(&bytes)), Err(Malformed));
        bytes.clear();
        encode_cut(&Cut { ended_at: Vec::new(), ..cut }, &mut bytes);
        assert_eq!(bytes[0], VERSION_WITHOUT_ENDS, "an earlier version reads it");
    }

    #[test]
    fn a_record_of_version_1_is_read() {
        let cut = Cut {
            cycle: 3,
            positions: vec![5],
            watermarks: vec![-1],
            idle: vec![true],
            stands_still_when_idle: true,
            ..Cut::first()
        };
        let mut bytes = Vec::new();
        encode_cut(&cut, &mut bytes);
        let without_splits = bytes.len() - 4;
        bytes.truncate(without_splits);
        assert_eq!(decode_cut(&mut Fields(&bytes)), Err(Malformed));
        bytes[0] = 1;
        assert_eq!(decode_cut(&mut Fields(&bytes)), Ok(cut));
        bytes[0] = 5;
        assert_eq!(decode_cut(&mut Fields(&bytes)), Err(Malformed));
    }
}
