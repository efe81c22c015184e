//! Names that a text does not contain.

use std::fmt::Display;

/// Gives names for what is put into a tree. None of them occurs in the tree, in whatever way it is written: so nothing in the
/// tree can mean what is put in, and what is put in can mean nothing else.
pub(super) struct UnusedNames {
    /// The tree as text, in the case in which names compare.
    text: String,
    given: usize,
}

impl UnusedNames {
    /// Names for a tree.
    pub fn beside(tree: &impl Display) -> Self {
        UnusedNames { text: tree.to_string().to_lowercase(), given: 0 }
    }

    /// A name that was not given before. It ends in a space, so that no name is the beginning of another.
    pub fn next(&mut self) -> String {
        loop {
            self.given += 1;
            let name = format!("rows {} ", self.given);
            if !self.text.contains(&name) {
                return name;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::UnusedNames;

    #[test]
    fn no_name_is_in_the_text() {
        let mut names = UnusedNames::beside(&"SELECT \"Rows 1 \", \"rows 3 \", \"rows 4\", 'rows 11 '");
        let given: Vec<String> = (0..9).map(|_| names.next()).collect();
        assert_eq!(given[..3], ["rows 2 ", "rows 4 ", "rows 5 "]);
        assert_eq!(given[8], "rows 12 ");
    }
}
