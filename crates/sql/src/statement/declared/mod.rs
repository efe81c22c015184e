//! Options that are declared once: their names, what they hold, their defaults and what they mean. Connectors, formats
//! and settings declare them. From the declarations come the checks, the suggestions, the completion of names and the
//! guide's tables.

mod declared_values;
mod definition;
mod error;
mod group;
mod kind;
mod values;

pub use declared_values::DeclaredValues;
pub use definition::{OptionDefault, OptionDefinition};
pub use error::OptionError;
pub use group::{ListedOption, OptionGroup, OptionOwner};
pub use kind::OptionKind;
pub(crate) use kind::TypedValue;
pub use values::OptionValues;
