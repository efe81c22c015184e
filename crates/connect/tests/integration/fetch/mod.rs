//! Files of other machines: fetched from servers that this test writes byte by byte, from Python's, and from a store.
#![cfg(feature = "tables")]

mod support;

mod broken;
mod formats;
mod hostile;
mod python;
mod redirects;
mod resumed;
mod store;
mod store_errors;
mod tls;
