//! Text that is as long for a database as it looks.

/// A text that hardly gets shorter when it is compressed, without what line protocol gives a meaning to.
pub fn noise(bytes: usize) -> String {
    const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    let mut state = 88_172_645_463_325_252_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(LETTERS[(state % 64) as usize])
    };
    std::iter::repeat_with(next).take(bytes).collect()
}
