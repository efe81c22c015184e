//! The stretches of a record as bytes: 20 for each stretch of consecutive rows of one connection.

use tidemill_core::connections::Stretch;
use tidemill_core::fields::{Fields, Malformed, PutFields, TakeFields};

/// Writes stretches.
pub(crate) fn encode_stretches(stretches: &[Stretch]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for Stretch { rows, own_ns, others_ns } in stretches {
        bytes.put_u32(*rows);
        bytes.put_i64(*own_ns);
        bytes.put_i64(*others_ns);
    }
    bytes
}

/// Reads what [`encode_stretches`] wrote for this many rows.
pub(crate) fn decode_stretches(bytes: &[u8], rows: u32) -> Result<Vec<Stretch>, Malformed> {
    let (mut fields, mut stretches) = (Fields(bytes), Vec::new());
    while !fields.0.is_empty() {
        let (rows, own_ns) = (fields.u32()?, fields.u64()? as i64);
        stretches.push(Stretch { rows, own_ns, others_ns: fields.u64()? as i64 });
    }
    let of_all = stretches.iter().map(|stretch| u64::from(stretch.rows)).sum::<u64>();
    if stretches.is_empty() || of_all == u64::from(rows) { Ok(stretches) } else { Err(Malformed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_come_back_and_damaged_ones_do_not() {
        let stretches = [
            Stretch { rows: 2, own_ns: i64::MIN, others_ns: -7 },
            Stretch { rows: 1, own_ns: 7, others_ns: i64::MAX },
        ];
        let bytes = encode_stretches(&stretches);
        assert_eq!(decode_stretches(&bytes, 3), Ok(stretches.to_vec()));
        assert_eq!(decode_stretches(&[], 3), Ok(Vec::new()));
        for length in 1..bytes.len() {
            assert_eq!(decode_stretches(&bytes[..length], 3), Err(Malformed), "{length}");
        }
        assert_eq!(decode_stretches(&bytes, 4), Err(Malformed), "they are not of all rows");
    }
}
