//! Which sections a module has.

const TABLES: u8 = 4;
const MEMORIES: u8 = 5;
const GLOBALS: u8 = 6;

/// Which sections a module has. The module has been validated before.
pub(crate) struct Sections {
    present: [bool; 256],
}

impl Sections {
    pub fn of(binary: &[u8]) -> Sections {
        let mut present = [false; 256];
        // After the magic number and the version: id, length, content.
        let mut rest = binary.get(8..).unwrap_or_default();
        while let Some((id, after)) = rest.split_first() {
            present[usize::from(*id)] = true;
            let Some((length, content)) = length(after) else { break };
            rest = content.get(length..).unwrap_or_default();
        }
        Sections { present }
    }

    /// Whether an instance has anything that a call can change: a memory, a table or a global. Nothing is imported.
    pub fn may_keep_state(&self) -> bool {
        [TABLES, MEMORIES, GLOBALS].iter().any(|id| self.present[usize::from(*id)])
    }
}

/// A number of 32 bits in LEB128, and what comes after it.
fn length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut value = 0_u64;
    for (index, byte) in bytes.iter().take(5).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((usize::try_from(value).ok()?, &bytes[index + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_change_is_found() {
        let keeps =
            |text: &str| Sections::of(&wat::parse_str(text).expect("it is a module")).may_keep_state();
        let long = "(nop)".repeat(300);
        assert!(!keeps("(module)"));
        assert!(!keeps(&format!(r#"(module (func (export "f") (result i32) {long} i32.const 1))"#)));
        assert!(keeps(&format!("(module (memory 1) (func {long}))")));
        assert!(keeps(&format!("(module (func {long}) (global (mut i32) (i32.const 0)))")));
        assert!(keeps("(module (table 1 funcref))"));
    }
}
