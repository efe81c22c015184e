//! What other processes of a query must know to have the same plan.

use std::sync::Arc;

use tidemill_engine::fields::{Fields, Malformed, PutFields, TakeFields};

use super::Definition;

/// The version of the bytes.
const VERSION: u32 = 1;

/// What other processes of a query must know to have the same plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Instructions {
    /// The statements that have changed settings, in order.
    pub settings: Vec<String>,
    /// The catalogue.
    pub definitions: Vec<Arc<Definition>>,
    /// The query; `None`: everything that the catalogue requests.
    pub query: Option<String>,
}

impl Instructions {
    /// Version; number of settings, the statement of each; number of definitions, each; whether there is a query, and the
    /// query.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.put_u32(VERSION);
        bytes.put_u64(self.settings.len() as u64);
        self.settings.iter().for_each(|statement| bytes.put_bytes(statement.as_bytes()));
        bytes.put_u64(self.definitions.len() as u64);
        self.definitions.iter().for_each(|definition| definition.put(&mut bytes));
        bytes.put_u8(self.query.is_some().into());
        self.query.iter().for_each(|statement| bytes.put_bytes(statement.as_bytes()));
        bytes
    }

    /// From the bytes of process 0.
    pub fn decode(bytes: &[u8]) -> Result<Instructions, Malformed> {
        let mut fields = Fields(bytes);
        if fields.u32()? != VERSION {
            return Err(Malformed);
        }
        let settings = (0..fields.u64()?).map(|_| fields.text()).collect::<Result<_, _>>()?;
        let definitions = (0..fields.u64()?).map(|_| Definition::take(&mut fields).map(Arc::new));
        let definitions = definitions.collect::<Result<_, _>>()?;
        let query = match fields.u8()? {
            0 => None,
            1 => Some(fields.text()?),
            _ => return Err(Malformed),
        };
        match fields.0.is_empty() {
            true => Ok(Instructions { settings, definitions, query }),
            false => Err(Malformed),
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
        for query in [None, Some("SELECT ';' -- ;".to_owned())] {
            let instructions = Instructions {
                settings: vec!["SET workers = 2 -- not at its end".to_owned()],
                definitions: vec![definition(1, "CREATE VIEW a AS SELECT 1 --"), definition(2, "")],
                query,
            };
            let bytes = instructions.encode();
            assert_eq!(Instructions::decode(&bytes), Ok(instructions));
            for length in 0..bytes.len() {
                assert_eq!(Instructions::decode(&bytes[..length]), Err(Malformed), "{length} bytes");
            }
        }
    }
}
