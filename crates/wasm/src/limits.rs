//! What a function may use.

/// What one instance of a module, and one call of it, may use.
///
/// ```
/// use tidemill_wasm::Limits;
/// let limits = Limits { memory_bytes_max: 64 << 20, ..Limits::default() };
/// assert_eq!(limits.fuel_max, 10_000_000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The memory of an instance. Each worker that calls the function at the same moment has one.
    pub memory_bytes_max: usize,
    /// The work of a call, in units of about one instruction. A call that computes many rows is repeated with fewer rows
    /// before it fails. What runs when the module starts has ten million units of its own.
    pub fuel_max: u64,
}

impl Default for Limits {
    /// 16 MiB, and ten million units, which take some 10 to 50 ms.
    fn default() -> Self {
        Limits { memory_bytes_max: 16 << 20, fuel_max: 10_000_000 }
    }
}
