//! Stores that speak S3: where an object lies, and who asks for it.

mod settings;
mod signature;

pub use settings::S3Settings;
pub(super) use settings::encoded;
pub(super) use signature::Signer;
