//! Line protocol against a slow, obvious parser, and against bytes of any kind.
#![cfg(feature = "tables")]

mod hostile;
mod oracle;
mod points;
