//! Names of columns, as a program writes them.

/// One name, or several: `"key"`, `["key", "value"]` or a vector of strings; `()` means none.
pub trait Names {
    /// The names.
    fn names(self) -> Vec<String>;
}

impl Names for () {
    fn names(self) -> Vec<String> {
        Vec::new()
    }
}

impl Names for &str {
    fn names(self) -> Vec<String> {
        vec![self.to_owned()]
    }
}

impl<const N: usize> Names for [&str; N] {
    fn names(self) -> Vec<String> {
        self.map(str::to_owned).into()
    }
}

impl Names for Vec<String> {
    fn names(self) -> Vec<String> {
        self
    }
}
