//! Searches for bytes in blocks: as many at a time as the processor can compare.
#![allow(unsafe_code)]

pub(super) use chosen::{BLOCK_BYTES, first_in, marks_in};

/// Bytes that may end a name, a value or a point, or that need a closer look.
pub(super) const MARKS: [u8; 6] = *b",= \n\"\\";
/// How many bytes have their marks as the bits of one word.
pub(super) const WORD_BYTES: usize = 64;

#[cfg(target_arch = "x86_64")]
mod chosen {
    use std::arch::x86_64::{
        __m128i, __m256i, _mm_cmpeq_epi8, _mm_movemask_epi8, _mm_or_si128, _mm_set_epi64x, _mm_set1_epi8,
        _mm_setzero_si128, _mm256_cmpeq_epi8, _mm256_movemask_epi8, _mm256_or_si256, _mm256_set_m128i,
        _mm256_set1_epi8, _mm256_setzero_si256,
    };

    use super::{MARKS, WORD_BYTES};

    /// How many bytes are examined together.
    pub(in super::super) const BLOCK_BYTES: usize = 16;

    /// For each block, which bytes are one of [`MARKS`], with the first byte in the lowest bit; and whether all are
    /// ASCII.
    pub(in super::super) fn marks_in(blocks: &[[u8; WORD_BYTES]], words: &mut Vec<u64>) -> bool {
        if std::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2.
            unsafe { marks_with_avx2(blocks, words) }
        } else {
            // SAFETY: as below.
            unsafe { marks_with_sse2(blocks, words) }
        }
    }

    #[target_feature(enable = "avx2")]
    fn marks_with_avx2(blocks: &[[u8; WORD_BYTES]], words: &mut Vec<u64>) -> bool {
        let mut others = 0;
        words.extend(blocks.iter().map(|block| {
            let (halves, _) = block.as_chunks::<32>();
            let (low, high) = (load_wide(&halves[0]), load_wide(&halves[1]));
            others |= _mm256_movemask_epi8(_mm256_or_si256(low, high));
            u64::from(wide_marks(low)) | u64::from(wide_marks(high)) << 32
        }));
        others == 0
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn wide_marks(block: __m256i) -> u32 {
        let mut hits = _mm256_setzero_si256();
        for byte in MARKS {
            hits = _mm256_or_si256(hits, _mm256_cmpeq_epi8(block, _mm256_set1_epi8(byte as i8)));
        }
        _mm256_movemask_epi8(hits) as u32
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn load_wide(block: &[u8; 32]) -> __m256i {
        let (halves, _) = block.as_chunks::<BLOCK_BYTES>();
        _mm256_set_m128i(load(&halves[1]), load(&halves[0]))
    }

    #[target_feature(enable = "sse2")]
    fn marks_with_sse2(blocks: &[[u8; WORD_BYTES]], words: &mut Vec<u64>) -> bool {
        let mut others = 0;
        words.extend(blocks.iter().map(|block| {
            let (parts, _) = block.as_chunks::<BLOCK_BYTES>();
            parts.iter().rev().fold(0, |marks, part| {
                let part = load(part);
                others |= _mm_movemask_epi8(part);
                marks << BLOCK_BYTES | u64::from(_mm_movemask_epi8(hits(part, MARKS)) as u32)
            })
        }));
        others == 0
    }

    /// Sets all bits of the bytes that are one of the wanted ones.
    #[target_feature(enable = "sse2")]
    #[inline]
    fn hits<const N: usize>(block: __m128i, wanted: [u8; N]) -> __m128i {
        wanted.iter().fold(_mm_setzero_si128(), |hits, byte| {
            _mm_or_si128(hits, _mm_cmpeq_epi8(block, _mm_set1_epi8(*byte as i8)))
        })
    }

    #[target_feature(enable = "sse2")]
    #[inline]
    fn load(block: &[u8; BLOCK_BYTES]) -> __m128i {
        let both = u128::from_le_bytes(*block);
        _mm_set_epi64x((both >> 64) as i64, both as i64)
    }

    /// The first of the wanted bytes in a block; at least the block's length if there is none.
    #[inline(always)]
    pub(in super::super) fn first_in<const N: usize>(block: &[u8; BLOCK_BYTES], wanted: [u8; N]) -> usize {
        // SAFETY: all it takes is that the processor has SSE2, and every one of this kind does.
        unsafe { first_with_sse2(block, wanted) }
    }

    #[target_feature(enable = "sse2")]
    #[inline]
    fn first_with_sse2<const N: usize>(block: &[u8; BLOCK_BYTES], wanted: [u8; N]) -> usize {
        _mm_movemask_epi8(hits(load(block), wanted)).trailing_zeros() as usize
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod chosen {
    use super::{MARKS, WORD_BYTES};

    /// For each block, which bytes are one of [`MARKS`], with the first byte in the lowest bit; and whether all are
    /// ASCII.
    pub(in super::super) fn marks_in(blocks: &[[u8; WORD_BYTES]], words: &mut Vec<u64>) -> bool {
        let mark = |(at, byte): (usize, &u8)| u64::from(MARKS.contains(byte)) << at;
        words.extend(blocks.iter().map(|block| block.iter().enumerate().map(mark).sum::<u64>()));
        blocks.as_flattened().is_ascii()
    }

    const LOW_BITS: u64 = 0x0101_0101_0101_0101;
    const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

    /// How many bytes are examined together.
    pub(in super::super) const BLOCK_BYTES: usize = 8;

    /// The first of the wanted bytes in a block; at least the block's length if there is none.
    #[inline(always)]
    pub(in super::super) fn first_in<const N: usize>(block: &[u8; BLOCK_BYTES], wanted: [u8; N]) -> usize {
        let word = u64::from_le_bytes(*block);
        let mut hits = 0;
        for byte in wanted {
            // The top bit of each byte that is zero. Bytes above such a byte may be marked wrongly, but never those
            // below.
            let differences = word ^ (LOW_BITS * u64::from(byte));
            hits |= differences.wrapping_sub(LOW_BITS) & !differences & HIGH_BITS;
        }
        (hits.trailing_zeros() / 8) as usize
    }
}
