//! The trees of a query in SQL: its syntax, its plans, and their expressions.
//!
//! DataFusion's walks over trees, and its translation of syntax into plans, are generic: the compiler makes them
//! again, with all kinds of nodes, for each visitor, closure or catalogue, in the crate that names it. Here they are
//! named once, with trait objects, in a crate that is optimised for size, because it works once per query and never
//! per row (decision 0129). Shims in the crates above are all that is still compiled for each closure.
//!
//! | Module | Trees |
//! |---|---|
//! | [`syntax`] | what the parser makes of a text |
//! | [`nodes`] | plans and expressions of DataFusion |
//! | [`planning`] | from syntax to a plan or an expression |

pub mod nodes;
pub mod planning;
pub mod syntax;
