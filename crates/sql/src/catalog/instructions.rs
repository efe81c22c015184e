//! What other processes of a query must know to have the same plan.

use std::sync::Arc;

use tidemill_engine::fields::{Fields, Malformed, PutFields, TakeFields, take_all};

use super::Definition;

/// The version of the bytes.
const VERSION: u32 = 2;

/// What other processes of a query must know to have the same plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Instructions {
    /// The settings, see [`Settings::encode`](crate::Settings::encode).
    pub settings: Vec<u8>,
    /// The catalogue.
    pub definitions: Vec<Arc<Definition>>,
    pub requested: Requested,
}

/// What is to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Requested {
    /// A query.
    Query(String),
    /// These sinks and materialized views.
    Outputs(Vec<String>),
}

impl Instructions {
    /// Version; settings; number of definitions, each; 0 and a query, or 1, the number of outputs and the name of each.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.put_u32(VERSION);
        bytes.put_bytes(&self.settings);
        bytes.put_u64(self.definitions.len() as u64);
        self.definitions.iter().for_each(|definition| definition.put(&mut bytes));
        match &self.requested {
            Requested::Query(query) => {
                bytes.put_u8(0);
                bytes.put_bytes(query.as_bytes());
            }
            Requested::Outputs(names) => {
                bytes.put_u8(1);
                bytes.put_u64(names.len() as u64);
                names.iter().for_each(|name| bytes.put_bytes(name.as_bytes()));
            }
        }
        bytes
    }

    /// From the bytes of process 0.
    pub fn decode(bytes: &[u8]) -> Result<Instructions, Malformed> {
        let mut fields = Fields(bytes);
        if fields.u32()? != VERSION {
            return Err(Malformed);
        }
        let settings = fields.bytes()?.to_vec();
        let definitions = (0..fields.u64()?).map(|_| Definition::take(&mut fields).map(Arc::new));
        let definitions = definitions.collect::<Result<_, _>>()?;
        let requested = match fields.u8()? {
            0 => Requested::Query(fields.text()?),
            1 => {
                let count = fields.u64()?;
                Requested::Outputs(take_all(&mut fields, count, Fields::text)?)
            }
            _ => return Err(Malformed),
        };
        if fields.0.is_empty() {
            Ok(Instructions { settings, definitions, requested })
        } else {
            Err(Malformed)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn statements_that_look_like_several_stay_one() {
        let definition = |version, statement: &str| {
            let idle_after = Duration::from_millis(version);
            Arc::new(Definition { version, statement: statement.to_owned(), idle_after })
        };
        let outputs = Requested::Outputs(vec!["one".to_owned(), "a; b".to_owned()]);
        for requested in [outputs, Requested::Query("SELECT ';' -- ;".to_owned())] {
            let instructions = Instructions {
                settings: crate::Settings::default().encode(),
                definitions: vec![definition(1, "CREATE VIEW a AS SELECT 1 --"), definition(2, "")],
                requested,
            };
            let bytes = instructions.encode();
            assert_eq!(Instructions::decode(&bytes), Ok(instructions));
            for length in 0..bytes.len() {
                assert_eq!(Instructions::decode(&bytes[..length]), Err(Malformed), "{length} bytes");
            }
        }
    }
}
