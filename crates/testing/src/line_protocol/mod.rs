//! A slow reader of line protocol, and what both readers give in a form that can be compared.

pub mod columns;
pub mod compared;
pub mod oracle;
