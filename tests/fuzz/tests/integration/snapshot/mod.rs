//! Damaged snapshots: the checksum is right, but somebody or something has changed the bytes. Reading them ends with a
//! state or an error; it does not panic, hang, or reserve what the bytes announce.

mod operators;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tidemill_core::{SnapshotReader, SnapshotWriter, State};
use tidemill_fuzz::{cases, damage};
use tidemill_testing::random::Random;

/// Damages the bytes of a snapshot and closes them with the checksum that they then have.
fn damaged(random: &mut Random, snapshot: &[u8], others: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = snapshot[..snapshot.len() - 4].to_vec();
    damage::binary(random, &mut bytes, others);
    sealed(bytes)
}

fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let checksum = crc32fast::hash(&bytes);
    bytes.extend(checksum.to_le_bytes());
    bytes
}

type Nested = (Vec<Option<(bool, String)>>, BTreeMap<u32, VecDeque<f64>>, BTreeSet<i16>);

fn nested() -> Nested {
    (
        vec![Some((true, "a text".into())), None, Some((false, String::new()))],
        BTreeMap::from([(1, VecDeque::from([0.5, -0.0])), (9, VecDeque::new())]),
        BTreeSet::from([-3, 7]),
    )
}

#[test]
fn a_damaged_value_is_read_or_refused_and_a_good_one_is_written_as_ever() {
    let mut writer = SnapshotWriter::default();
    nested().write(&mut writer);
    let good = writer.finish();
    let expected = "\
        0300000000000000 01 01 0600000000000000 612074657874 00 01 00 0000000000000000 \
        0200000000000000 01000000 0200000000000000 000000000000e03f 0000000000000080 09000000 0000000000000000 \
        0200000000000000 fdff 0700 ";
    let hexadecimal: String = good[..good.len() - 4].iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hexadecimal, expected.replace(' ', ""));

    cases::run("snapshot: values", move |random| {
        let bytes = if random.is_once_in(4) {
            sealed((0..random.index(64)).map(|_| random.next() as u8).collect())
        } else {
            damaged(random, &good, std::slice::from_ref(&good))
        };
        let mut reader = SnapshotReader::new(&bytes).unwrap();
        if let Ok(read) = Nested::read(&mut reader) {
            let mut writer = SnapshotWriter::default();
            read.write(&mut writer);
            let again = writer.finish();
            // NaN is not equal to itself, and the elements of sets and maps are written in order.
            assert!(again.len() <= bytes.len(), "{read:?} is longer than what it was read from");
        }
    });
}
