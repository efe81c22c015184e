//! Looking for bytes in a block of them: 16 at a time where the processor can. The only unsafe code of this crate.
#![allow(unsafe_code)]

pub(super) use chosen::{BLOCK_BYTES, first_in};

#[cfg(target_arch = "x86_64")]
mod chosen {
    use std::arch::x86_64::{
        _mm_cmpeq_epi8, _mm_movemask_epi8, _mm_or_si128, _mm_set_epi64x, _mm_set1_epi8, _mm_setzero_si128,
    };

    /// How many bytes are looked at together.
    pub(in super::super) const BLOCK_BYTES: usize = 16;

    /// The first of the wanted bytes in a block; at least the block's length if there is none.
    #[inline(always)]
    pub(in super::super) fn first_in<const N: usize>(block: &[u8; BLOCK_BYTES], wanted: [u8; N]) -> usize {
        // SAFETY: all it takes is that the processor has SSE2, and every one of this kind does.
        unsafe { first_with_sse2(block, wanted) }
    }

    #[target_feature(enable = "sse2")]
    #[inline]
    fn first_with_sse2<const N: usize>(block: &[u8; BLOCK_BYTES], wanted: [u8; N]) -> usize {
        let both = u128::from_le_bytes(*block);
        let block = _mm_set_epi64x((both >> 64) as i64, both as i64);
        let mut hits = _mm_setzero_si128();
        for byte in wanted {
            hits = _mm_or_si128(hits, _mm_cmpeq_epi8(block, _mm_set1_epi8(byte as i8)));
        }
        _mm_movemask_epi8(hits).trailing_zeros() as usize
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod chosen {
    const LOW_BITS: u64 = 0x0101_0101_0101_0101;
    const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

    /// How many bytes are looked at together.
    pub(in super::super) const BLOCK_BYTES: usize = 8;

    /// The first of the wanted bytes in a block; at least the block's length if there is none.
    #[inline(always)]
    pub(in super::super) fn first_in<const N: usize>(block: &[u8; BLOCK_BYTES], wanted: [u8; N]) -> usize {
        let word = u64::from_le_bytes(*block);
        let mut hits = 0;
        for byte in wanted {
            // The top bit of each byte that is zero. Bytes above one that is may be marked wrongly, never below.
            let differences = word ^ (LOW_BITS * u64::from(byte));
            hits |= differences.wrapping_sub(LOW_BITS) & !differences & HIGH_BITS;
        }
        (hits.trailing_zeros() / 8) as usize
    }
}
