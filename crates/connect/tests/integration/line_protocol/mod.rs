//! Line protocol against a slow, obvious parser, and against bytes of any kind.
#![cfg(feature = "tables")]

mod alike;
mod hostile;
mod points;
