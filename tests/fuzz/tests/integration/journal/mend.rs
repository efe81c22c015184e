//! Making checksums good again, so that what is behind them is looked at: somebody may have done that.

/// Of the head and the records of a segment, or of another file as a whole.
pub fn checksums(bytes: &mut [u8]) {
    if bytes.starts_with(b"TIDESEGM") {
        head(bytes);
        let mark = |window: &[u8]| window == b"TIDR";
        let marks: Vec<usize> =
            bytes.windows(4).enumerate().filter(|(_, at)| mark(at)).map(|(at, _)| at).collect();
        marks.iter().filter_map(|mark| mark.checked_sub(52)).for_each(|offset| record(&mut bytes[offset..]));
    } else if let Some(end) = bytes.len().checked_sub(4) {
        let checksum = of(&[&bytes[..end]]);
        bytes[end..].copy_from_slice(&checksum);
    }
}

fn head(bytes: &mut [u8]) {
    let Some(length) = bytes.get(12..16).map(|field| u32::from_le_bytes(field.try_into().unwrap()) as usize)
    else {
        return;
    };
    if let Some(head) = bytes.get_mut(..length).filter(|head| head.len() > 20) {
        let checksum = of(&[&head[..16], &head[20..]]);
        head[16..20].copy_from_slice(&checksum);
    }
}

fn record(bytes: &mut [u8]) {
    let length = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
    if let Some(record) = bytes.get_mut(..length).filter(|record| record.len() >= 64) {
        let checksum = of(&[&record[..4], &record[8..]]);
        record[4..8].copy_from_slice(&checksum);
    }
}

fn of(parts: &[&[u8]]) -> [u8; 4] {
    let mut hasher = crc32fast::Hasher::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize().to_le_bytes()
}
