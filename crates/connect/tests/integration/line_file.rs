//! Reading files of lines: plain, compressed, damaged, endless.

use std::fs;
use std::io::Read;

use proptest::prelude::*;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use tidemill_connect::{LINE_LIMIT_BYTES, LineFile, LineFileError};

/// Number, content, terminated, length if over-long.
type OwnedLine = (u64, Vec<u8>, bool, Option<u64>);

fn read_all(file: &mut LineFile) -> Result<Vec<OwnedLine>, LineFileError> {
    let mut lines = Vec::new();
    while let Some(chunk) = file.next_chunk()? {
        for line in chunk.lines() {
            lines.push((line.number, line.bytes.to_vec(), line.terminated, line.over_long));
        }
    }
    Ok(lines)
}

fn read_bytes(bytes: &[u8]) -> Result<Vec<OwnedLine>, LineFileError> {
    read_all(&mut LineFile::from_reader("test", std::io::Cursor::new(bytes.to_vec()))?)
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

/// What the reader must deliver, computed the slow and plain way.
fn reference(bytes: &[u8]) -> Vec<OwnedLine> {
    let mut lines: Vec<OwnedLine> = Vec::new();
    for (index, piece) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let terminated = piece.ends_with(b"\n");
        let piece = piece.strip_suffix(b"\n").unwrap_or(piece);
        let piece = piece.strip_suffix(b"\r").unwrap_or(piece);
        let over_long = (piece.len() > LINE_LIMIT_BYTES).then_some(piece.len() as u64);
        let kept = piece[..piece.len().min(LINE_LIMIT_BYTES)].to_vec();
        lines.push((index as u64 + 1, kept, terminated, over_long));
    }
    lines
}

/// A reader that returns a few bytes per call, as a pipe does.
struct Trickle(Vec<u8>, usize, usize);

impl Read for Trickle {
    fn read(&mut self, target: &mut [u8]) -> std::io::Result<usize> {
        let count = (self.0.len() - self.1).min(self.2).min(target.len());
        target[..count].copy_from_slice(&self.0[self.1..self.1 + count]);
        self.1 += count;
        Ok(count)
    }
}

#[test]
fn empty_and_missing_files_differ() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.csv");
    fs::write(&empty, b"").unwrap();
    assert_eq!(read_all(&mut LineFile::open(&empty).unwrap()).unwrap(), []);
    let missing = LineFile::open(folder.path().join("missing.csv")).unwrap_err();
    assert!(matches!(missing, LineFileError::NotFound { .. }), "{missing}");
    assert!(missing.to_string().contains("missing.csv: no such file"), "{missing}");
}

#[test]
fn a_directory_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let error = LineFile::open(folder.path()).unwrap_err();
    assert!(matches!(error, LineFileError::IsDirectory { .. }), "{error}");
}

#[cfg(unix)]
#[test]
fn a_forbidden_file_is_told() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret.csv");
    fs::write(&path, b"1\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::File::open(&path).is_ok() {
        println!("skipped: this user (root) may read everything");
        return;
    }
    let error = LineFile::open(&path).unwrap_err();
    assert!(matches!(error, LineFileError::PermissionDenied { .. }), "{error}");
}

#[test]
fn content_tells_compression_and_the_name_need_not() {
    let folder = tempfile::tempdir().unwrap();
    let expected = reference(b"one\ntwo\n");
    for name in ["a.csv", "a.csv.zst"] {
        let path = folder.path().join(name);
        fs::write(&path, zstd(b"one\ntwo\n")).unwrap();
        assert_eq!(read_all(&mut LineFile::open(&path).unwrap()).unwrap(), expected);
    }
    for content in [&b"one\ntwo\n"[..], b"", b"\x28\xb5"] {
        let path = folder.path().join("plain.csv.zst");
        fs::write(&path, content).unwrap();
        let error = LineFile::open(&path).unwrap_err();
        assert!(matches!(error, LineFileError::CorruptZstd { offset: 0, .. }), "{error}");
    }
    let error = read_bytes(b"\x1f\x8b\x08\x00rest").unwrap_err();
    assert!(matches!(error, LineFileError::CorruptGzip { .. }), "{error}");
}

#[test]
fn several_frames_and_skippable_ones_are_one_file() {
    let mut bytes = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc".to_vec();
    bytes.extend(zstd(b"one\ntw"));
    bytes.extend(zstd(b""));
    bytes.extend(b"\x5f\x2a\x4d\x18\x00\x00\x00\x00");
    bytes.extend(zstd(b"o\nthree"));
    assert_eq!(read_bytes(&bytes).unwrap(), reference(b"one\ntwo\nthree"));
}

#[test]
fn damage_is_reported_with_its_place() {
    let text: Vec<u8> = (0..200_000).flat_map(|number| format!("{number}\n").into_bytes()).collect();
    let good = zstd(&text);
    for length in [5, 10, good.len() / 2, good.len() - 1] {
        let error = read_bytes(&good[..length]).unwrap_err();
        let LineFileError::CorruptZstd { offset, detail, .. } = &error else { panic!("{error}") };
        assert_eq!((*offset, detail.as_str()), (length as u64, "the file ends in the middle of a frame"));
    }
    let mut trailing = good.clone();
    trailing.extend(b"plain text\n");
    let error = read_bytes(&trailing).unwrap_err().to_string();
    assert!(error.contains("something other than a zstd frame follows"), "{error}");

    let mut flipped = good.clone();
    *flipped.last_mut().unwrap() ^= 1;
    let error = read_bytes(&flipped).unwrap_err().to_string();
    assert!(error.contains("checksum"), "{error}");
    assert!(error.contains(&format!("at byte {}", good.len())), "{error}");
}

#[test]
fn after_an_error_no_clean_end_is_pretended() {
    let good = zstd(&b"12345\n".repeat(1000));
    let mut file = LineFile::from_reader("x", std::io::Cursor::new(good[..good.len() / 2].to_vec())).unwrap();
    assert!(read_all(&mut file).is_err());
    assert!(read_all(&mut file).is_err());
}

#[test]
fn an_endless_line_needs_no_memory() {
    let line_bytes = 300_000_000;
    let source = b"first\n".chain(std::io::repeat(b'x').take(line_bytes)).chain(&b"\r\nlast\n"[..]);
    let lines = read_all(&mut LineFile::from_reader("endless", source).unwrap()).unwrap();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0], (1, b"first".to_vec(), true, None));
    assert_eq!((lines[1].0, lines[1].1.len(), lines[1].3), (2, LINE_LIMIT_BYTES, Some(line_bytes)));
    assert_eq!(lines[2], (3, b"last".to_vec(), true, None));
}

#[test]
fn the_limit_is_exact_for_both_line_ends_and_every_speed() {
    for extra in [0, 1, 2, 3] {
        for line_end in ["\n", "\r\n", ""] {
            let mut bytes = vec![b'7'; LINE_LIMIT_BYTES + extra];
            bytes.extend(line_end.as_bytes());
            if !line_end.is_empty() {
                bytes.extend(b"8\n");
            }
            for step in [1021, 1 << 20] {
                let source = Trickle(bytes.clone(), 0, step);
                let lines = read_all(&mut LineFile::from_reader("limit", source).unwrap()).unwrap();
                assert!(lines == reference(&bytes), "{extra} {line_end:?} {step}");
            }
        }
    }
}

#[test]
fn failures_below_are_told_with_their_place() {
    struct Failing(u32);
    impl Read for Failing {
        fn read(&mut self, target: &mut [u8]) -> std::io::Result<usize> {
            self.0 += 1;
            if self.0 > 3 {
                return Err(std::io::Error::other("cable pulled"));
            }
            target[..2].copy_from_slice(b"1\n");
            Ok(2)
        }
    }
    let error = read_all(&mut LineFile::from_reader("net", Failing(0)).unwrap()).unwrap_err();
    let LineFileError::Io { offset, .. } = &error else { panic!("{error}") };
    assert_eq!(*offset, 6);
    assert!(error.to_string().contains("net: reading failed at byte 6: cable pulled"), "{error}");

    let compressed = zstd(&b"12345\n".repeat(1000));
    let source = std::io::Cursor::new(compressed[..20].to_vec()).chain(Failing(3));
    let error = read_all(&mut LineFile::from_reader("net", source).unwrap()).unwrap_err();
    assert!(matches!(error, LineFileError::Io { .. }), "{error}");
}

#[test]
fn a_reader_can_move_to_another_thread() {
    let mut file = LineFile::from_reader("moved", &b"1\n"[..]).unwrap();
    let lines = std::thread::spawn(move || read_all(&mut file).unwrap()).join().unwrap();
    assert_eq!(lines, reference(b"1\n"));
}

proptest! {
    #[test]
    fn lines_are_those_of_the_bytes(
        pieces in prop::collection::vec(("[a-c\r]{0,9}", prop::sample::select(vec!["\n", "\r\n", ""])), 0..40),
        step in 1usize..30,
        compress: bool,
    ) {
        let text: String = pieces.iter().flat_map(|(line, end)| [line.as_str(), *end]).collect();
        let bytes = if compress { zstd(text.as_bytes()) } else { text.clone().into_bytes() };
        let mut file = LineFile::from_reader("test", Trickle(bytes, 0, step)).unwrap();
        prop_assert_eq!(read_all(&mut file).unwrap(), reference(text.as_bytes()));
    }

    #[test]
    fn damaged_zstd_never_panics(flips in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 1..4)) {
        let text: Vec<u8> = (0..3000).flat_map(|number| format!("{},\n", number * 7919).into_bytes()).collect();
        let mut bytes = zstd(&text);
        for (place, mask) in flips {
            let place = place.index(bytes.len());
            bytes[place] ^= mask;
        }
        // An error, or by chance readable: never a panic.
        let _ = read_bytes(&bytes);
    }
}
