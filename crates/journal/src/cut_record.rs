//! A cut as bytes, in the log of cuts and in snapshots.

use tidemill_core::Cut;

use crate::fields::{EndsEarly, Fields, PutFields};

const VERSION: u8 = 1;
const SNAPSHOT: u8 = 1;
const LAST: u8 = 2;

/// Writes a cut.
pub(crate) fn encode_cut(cut: &Cut, bytes: &mut Vec<u8>) {
    bytes.put_u8(VERSION);
    bytes.put_u8(if cut.snapshot { SNAPSHOT } else { 0 } | if cut.last { LAST } else { 0 });
    bytes.put_u64(cut.cycle);
    bytes.put_u64(cut.closed_at_ns);
    bytes.put_u32(cut.positions.len() as u32);
    cut.positions.iter().for_each(|position| bytes.put_u64(*position));
    bytes.put_u32(cut.watermarks.len() as u32);
    cut.watermarks.iter().for_each(|watermark| bytes.put(&watermark.to_le_bytes()));
    bytes.put_u32(cut.idle.len() as u32);
    cut.idle.iter().for_each(|idle| bytes.put_u8(u8::from(*idle)));
}

/// Reads what [`encode_cut`] wrote; another version counts as damage, for the file's version would be another, too.
pub(crate) fn decode_cut(fields: &mut Fields) -> Result<Cut, EndsEarly> {
    if fields.u8()? != VERSION {
        return Err(EndsEarly);
    }
    let flags = fields.u8()?;
    let (cycle, closed_at_ns) = (fields.u64()?, fields.u64()?);
    let positions = list(fields, Fields::u64)?;
    let watermarks = list(fields, |fields| Ok(fields.u64()? as i64))?;
    let idle = list(fields, |fields| Ok(fields.u8()? != 0))?;
    let (snapshot, last) = (flags & SNAPSHOT != 0, flags & LAST != 0);
    Ok(Cut { cycle, positions, watermarks, idle, closed_at_ns, snapshot, last })
}

fn list<'a, T>(
    fields: &mut Fields<'a>,
    one: impl Fn(&mut Fields<'a>) -> Result<T, EndsEarly>,
) -> Result<Vec<T>, EndsEarly> {
    (0..fields.u32()?).map(|_| one(fields)).collect()
}
