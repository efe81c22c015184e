//! Modules: code as it was given, checked.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use thiserror::Error;
use wasmi::{CompilationMode, Config, EnforcedLimits, Engine, ExternType, FuncType};

use crate::sections::Sections;

/// The most bytes of a module, as text or as binary: a definition with it stays below the limit of a script.
pub const MODULE_BYTES_MAX: usize = 700 * 1024;

const BINARY: &[u8] = b"\0asm";
/// How many calls may be nested, and how many bytes their values take.
const NESTED_CALLS_MAX: usize = 1000;
const STACK_BYTES_MAX: usize = 1 << 20;

/// Why a module, or a function of it, cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct ModuleError {
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl ModuleError {
    pub(crate) fn new(message: impl Into<String>, hint: impl Into<String>) -> ModuleError {
        ModuleError { message: message.into(), hint: Some(hint.into()) }
    }
}

/// A module: code that can be called. Copies share the code.
///
/// ```
/// use tidemill_wasm::Module;
/// let module = Module::new(b"(module (func (export \"one\") (result i32) i32.const 1))")?;
/// assert_eq!(module.exported_functions(), ["one"]);
/// assert_eq!(module.digest().len(), 64);
/// assert!(Module::new(b"something else").is_err());
/// # Ok::<(), tidemill_wasm::ModuleError>(())
/// ```
#[derive(Clone)]
pub struct Module {
    shared: Arc<Shared>,
}

struct Shared {
    digest: String,
    binary: Vec<u8>,
    functions: Vec<(String, FuncType)>,
    has_memory: bool,
    keeps_state: bool,
}

impl Module {
    /// A module from its binary form (`.wasm`) or its text (`.wat`).
    ///
    /// # Errors
    /// If it is none, is too large, imports something, or uses what is not permitted.
    pub fn new(bytes: &[u8]) -> Result<Module, ModuleError> {
        check_size(bytes, "the module")?;
        let digest = digest(bytes);
        let binary = if bytes.starts_with(BINARY) { bytes.to_vec() } else { binary_of_text(bytes)? };
        check_size(&binary, "the module in its binary form")?;
        let compiled = compile(&binary)?;
        let imports: Vec<String> =
            compiled.imports().map(|import| format!("{}.{}", import.module(), import.name())).collect();
        if let Some(first) = imports.first() {
            let message = match imports.len() {
                1 => format!("the module imports {first}, but a module here may import nothing"),
                count => format!(
                    "the module imports {first} and {} more, but a module here may import nothing",
                    count - 1
                ),
            };
            return Err(ModuleError::new(
                message,
                "build it without a system interface: for Rust, the target wasm32-unknown-unknown",
            ));
        }
        let functions = compiled.exports().filter_map(|export| match export.ty() {
            ExternType::Func(kind) => Some((export.name().to_owned(), kind.clone())),
            _ => None,
        });
        let functions = functions.collect();
        let has_memory = matches!(compiled.get_export("memory"), Some(ExternType::Memory(_)));
        let keeps_state = Sections::of(&binary).may_keep_state();
        let shared = Shared { digest, binary, functions, has_memory, keeps_state };
        Ok(Module { shared: Arc::new(shared) })
    }

    /// The SHA-256 of the bytes that it was made from, in hexadecimal digits.
    pub fn digest(&self) -> &str {
        &self.shared.digest
    }

    /// The names of the functions that it exports.
    pub fn exported_functions(&self) -> Vec<&str> {
        self.shared.functions.iter().map(|(name, _)| name.as_str()).collect()
    }

    pub(crate) fn function(&self, name: &str) -> Option<&FuncType> {
        self.shared.functions.iter().find(|(exported, _)| exported == name).map(|(_, kind)| kind)
    }

    /// Whether it exports its memory as `memory`.
    pub(crate) fn has_memory(&self) -> bool {
        self.shared.has_memory
    }

    /// Whether a call may change something that a later call of the same instance sees.
    pub(crate) fn keeps_state(&self) -> bool {
        self.shared.keeps_state
    }

    /// The code in an engine of its own. Engines have a lock that calls take, so workers do not share one.
    pub(crate) fn compile(&self) -> Result<wasmi::Module, ModuleError> {
        compile(&self.shared.binary)
    }
}

impl std::fmt::Debug for Module {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Module").field("digest", &self.shared.digest).finish_non_exhaustive()
    }
}

/// The SHA-256 of bytes, in hexadecimal digits.
///
/// ```
/// assert_eq!(&tidemill_wasm::digest(b"abc")[..8], "ba7816bf");
/// ```
pub fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn check_size(bytes: &[u8], what: &str) -> Result<(), ModuleError> {
    if bytes.len() > MODULE_BYTES_MAX {
        Err(ModuleError::new(
            format!("{what} has {} bytes, but at most {MODULE_BYTES_MAX} are allowed", bytes.len()),
            "build it for size and without debug information: for Rust, opt-level = \"s\" and strip = true",
        ))
    } else {
        Ok(())
    }
}

fn binary_of_text(bytes: &[u8]) -> Result<Vec<u8>, ModuleError> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| text.trim_start().starts_with(['(', ';']));
    let Some(text) = text else {
        return Err(ModuleError::new(
            "this is not a WebAssembly module: it begins neither with the bytes of a binary module nor with `(module`",
            "give a .wasm or .wat file",
        ));
    };
    wat::parse_str(text).map_err(|error| {
        ModuleError::new(
            format!("the text of the module cannot be read: {}", one_line(&error.to_string())),
            "correct the text, or give the module in its binary form",
        )
    })
}

fn compile(binary: &[u8]) -> Result<wasmi::Module, ModuleError> {
    let engine = Engine::new(&config());
    wasmi::Module::new(&engine, binary).map_err(|error| {
        ModuleError::new(
            format!("the module cannot be used: {}", one_line(&error.to_string())),
            "build it for WebAssembly 2.0 without SIMD, threads, exceptions and garbage-collected types",
        )
    })
}

/// Everything is translated at once: otherwise the first call of a function would use fuel that later ones do not.
fn config() -> Config {
    let mut config = Config::default();
    config
        .consume_fuel(true)
        .compilation_mode(CompilationMode::Eager)
        .ignore_custom_sections(true)
        .enforced_limits(EnforcedLimits::strict())
        .wasm_multi_memory(false)
        .wasm_custom_page_sizes(false)
        .wasm_wide_arithmetic(false)
        .set_max_recursion_depth(NESTED_CALLS_MAX)
        .set_max_stack_height(STACK_BYTES_MAX);
    config
}

/// Messages are shown in one line.
fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}
