//! Colours of groups and of everything else, on white and on black.

/// Four hues of four shades: groups that are next to each other have like colours. All of them can be seen on white and on
/// black.
const GROUPS: [&str; 16] = [
    "#1f6fb4", "#3d8ed0", "#5aa9e6", "#7b8fe0", "#b5541c", "#d9762b", "#e89a4c", "#c98a1b", "#1e8a5a",
    "#35a874", "#5fbf8f", "#7fa83a", "#a03a8c", "#c05bb0", "#d983c4", "#b06a9a",
];

/// The colour of a group, of this many.
pub(super) fn of_group(group: u32, groups: u32) -> &'static str {
    let colors = GROUPS.len() as u32;
    // A few groups have hues far from each other.
    let index = if groups < colors { group * colors / groups.max(1) } else { group % colors };
    GROUPS[index as usize % GROUPS.len()]
}

/// The style of everything that has no group, for light and dark surroundings.
pub(super) const STYLE: &str = "\
svg{font-family:sans-serif;font-size:13px;background:#fff}\
text{fill:#222}.quiet{fill:#666}.title{font-size:20px;font-weight:bold}\
.paper{fill:#fff}.map{fill:#f6f6f4;stroke:#999}.line{stroke:#222}.border{fill:none;stroke:#777}\
.alone{stroke:#999;fill:#999}.sign{stroke:#444;fill:#444}\
@media (prefers-color-scheme:dark){svg{background:#16181c}text{fill:#e6e6e6}.quiet{fill:#a0a0a0}\
.paper{fill:#16181c}.map{fill:#1f2228;stroke:#666}.line{stroke:#e6e6e6}.border{stroke:#8a8a8a}\
.alone{stroke:#777;fill:#777}.sign{stroke:#ccc;fill:#ccc}}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_colours_of_their_own_up_to_sixteen() {
        for groups in [1, 2, 3, 4, 8, 16] {
            let mut colors: Vec<&str> = (0..groups).map(|group| of_group(group, groups)).collect();
            colors.sort_unstable();
            colors.dedup();
            assert_eq!(colors.len(), groups as usize);
        }
        assert_eq!(of_group(17, 1024), of_group(1, 16));
    }
}
