//! Values of settings as bytes.

use std::path::PathBuf;
use std::time::Duration;

use tidemill_engine::Rebalancing;
use tidemill_engine::fields::{Fields, Malformed, TakeFields};

/// A value of a setting, as bytes.
pub(super) trait PersistedValue {
    fn encode(&self) -> Vec<u8>;

    fn decode(&mut self, bytes: &mut Fields<'_>) -> Result<(), Malformed>;
}

macro_rules! persisted_number {
    ($($number:ty),*) => {$(
        impl PersistedValue for $number {
            fn encode(&self) -> Vec<u8> {
                (*self as u64).to_le_bytes().to_vec()
            }

            fn decode(&mut self, bytes: &mut Fields<'_>) -> Result<(), Malformed> {
                *self = <$number>::try_from(bytes.u64()?).map_err(|_| Malformed)?;
                Ok(())
            }
        }
    )*};
}

persisted_number!(u32, u64, usize);

impl PersistedValue for bool {
    fn encode(&self) -> Vec<u8> {
        u64::from(*self).encode()
    }

    fn decode(&mut self, bytes: &mut Fields<'_>) -> Result<(), Malformed> {
        *self = bytes.u64()? != 0;
        Ok(())
    }
}

impl PersistedValue for Rebalancing {
    fn encode(&self) -> Vec<u8> {
        (*self != Rebalancing::Off).encode()
    }

    fn decode(&mut self, bytes: &mut Fields<'_>) -> Result<(), Malformed> {
        let rebalances = bytes.u64()? != 0;
        *self = if rebalances { Rebalancing::default() } else { Rebalancing::Off };
        Ok(())
    }
}

impl PersistedValue for Duration {
    fn encode(&self) -> Vec<u8> {
        u64::try_from(self.as_nanos()).unwrap_or(u64::MAX).encode()
    }

    fn decode(&mut self, bytes: &mut Fields<'_>) -> Result<(), Malformed> {
        *self = Duration::from_nanos(bytes.u64()?);
        Ok(())
    }
}

impl PersistedValue for Option<Duration> {
    fn encode(&self) -> Vec<u8> {
        self.as_ref().map_or_else(Vec::new, PersistedValue::encode)
    }

    fn decode(&mut self, bytes: &mut Fields<'_>) -> Result<(), Malformed> {
        *self = if bytes.0.is_empty() { None } else { Some(Duration::from_nanos(bytes.u64()?)) };
        Ok(())
    }
}

/// A number of bytes; zero stands for none.
impl PersistedValue for Option<u64> {
    fn encode(&self) -> Vec<u8> {
        self.unwrap_or(0).encode()
    }

    fn decode(&mut self, bytes: &mut Fields<'_>) -> Result<(), Malformed> {
        *self = Some(bytes.u64()?).filter(|number| *number > 0);
        Ok(())
    }
}

impl PersistedValue for Option<PathBuf> {
    fn encode(&self) -> Vec<u8> {
        self.as_ref().map_or_else(Vec::new, |path| path.to_string_lossy().into_owned().into_bytes())
    }

    fn decode(&mut self, bytes: &mut Fields<'_>) -> Result<(), Malformed> {
        let path = std::str::from_utf8(bytes.take(bytes.0.len())?).map_err(|_| Malformed)?;
        *self = (!path.is_empty()).then(|| PathBuf::from(path));
        Ok(())
    }
}
