//! Boolean values of fields.

#[inline]
pub(super) fn boolean(value: &[u8]) -> Option<bool> {
    match value {
        b"t" | b"T" | b"true" | b"True" | b"TRUE" => Some(true),
        b"f" | b"F" | b"false" | b"False" | b"FALSE" => Some(false),
        _ => None,
    }
}
