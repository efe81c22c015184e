//! Why a call gives no result.

use thiserror::Error;
use wasmi::TrapCode;

/// Why a call gives no result. The messages do not name the function.
///
/// ```
/// use tidemill_wasm::Failure;
/// assert!(!Failure::Row("integer divide by zero".to_owned()).stops());
/// assert!(Failure::Stop("it needs more memory than 16777216 bytes".to_owned()).stops());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Failure {
    /// The code failed for a row: it trapped, or gave something that is not a value. Other rows can be computed without it.
    #[error("{0}")]
    Row(String),
    /// A limit was reached, or the code breaks a promise. To continue without the row would lose it because of a setting.
    #[error("{0}")]
    Stop(String),
}

impl Failure {
    /// Whether nothing more may be computed with the function.
    pub fn stops(&self) -> bool {
        matches!(self, Failure::Stop(_))
    }
}

/// What one call of a module gives instead of a result.
#[derive(Debug)]
pub(crate) enum Fault {
    /// More fuel, memory or stack would be needed; fewer rows may do.
    TooMuch(String),
    /// The code failed.
    Trap(String),
    /// The code does not keep what it must; fewer rows do not help.
    Broken(String),
}

impl Fault {
    pub fn of(error: &wasmi::Error, limits: &crate::Limits) -> Fault {
        match error.as_trap_code() {
            Some(TrapCode::OutOfFuel) => Fault::TooMuch(out_of_fuel(limits)),
            Some(TrapCode::GrowthOperationLimited | TrapCode::OutOfSystemMemory) => {
                Fault::TooMuch(out_of_memory(limits))
            }
            Some(TrapCode::StackOverflow) => {
                Fault::TooMuch("its calls are nested too deeply: the stack has overflowed".to_owned())
            }
            Some(trap) => Fault::Trap(in_words(trap).to_owned()),
            None => Fault::Trap(error.to_string()),
        }
    }

    /// As the failure of a call that cannot be made smaller.
    pub fn final_failure(self) -> Failure {
        match self {
            Fault::TooMuch(message) | Fault::Broken(message) => Failure::Stop(message),
            Fault::Trap(message) => Failure::Row(message),
        }
    }
}

pub(crate) fn out_of_fuel(limits: &crate::Limits) -> String {
    format!(
        "a call takes more than {} units of fuel; if it does not loop for ever, define it with more: WITH (fuel = ...)",
        limits.fuel_max
    )
}

pub(crate) fn out_of_memory(limits: &crate::Limits) -> String {
    format!(
        "it needs more memory than {} bytes; if that is meant, define it with more: WITH (memory = ...)",
        limits.memory_bytes_max
    )
}

fn in_words(trap: TrapCode) -> &'static str {
    match trap {
        TrapCode::UnreachableCodeReached => "the code gave up (`unreachable`, which is what a panic becomes)",
        TrapCode::MemoryOutOfBounds => "the code reads or writes outside of its memory",
        TrapCode::TableOutOfBounds | TrapCode::IndirectCallToNull | TrapCode::BadSignature => {
            "the code calls a function through a wrong pointer"
        }
        TrapCode::IntegerDivisionByZero => "the code divides an integer by zero",
        TrapCode::IntegerOverflow => "an integer overflows in a division",
        TrapCode::BadConversionToInteger => "the code converts a number that no integer can hold",
        other => other.trap_message(),
    }
}
