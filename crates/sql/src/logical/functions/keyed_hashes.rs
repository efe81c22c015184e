//! `hmac(data, key, 'sha256')`, as PostgreSQL's pgcrypto has it.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BinaryArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, exec_datafusion_err, exec_err};
use datafusion::logical_expr::ScalarUDF;
use hmac::{EagerHash, Hmac, KeyInit, Mac};
use sha2::{Sha224, Sha256, Sha384, Sha512};

use super::plain_function::plain_function;

/// Returns the function.
pub(super) fn functions() -> impl Iterator<Item = ScalarUDF> {
    const TEXT: DataType = DataType::Utf8;
    const BYTES: DataType = DataType::Binary;
    let types: [&[DataType]; 2] = [&[TEXT, TEXT, TEXT], &[BYTES, BYTES, TEXT]];
    std::iter::once(plain_function(&["hmac"], &types, BYTES, |columns| {
        let (data, keys) = (cast(&columns[0], &BYTES)?, cast(&columns[1], &BYTES)?);
        let (data, keys) = (data.as_binary::<i32>(), keys.as_binary::<i32>());
        let methods = columns[2].as_string::<i32>();
        let row = |row: usize| {
            if columns.iter().any(|column| column.is_null(row)) {
                return Ok(None);
            }
            let (data, key) = (data.value(row), keys.value(row));
            Ok(Some(match methods.value(row).to_ascii_lowercase().as_str() {
                "sha224" => code::<Sha224>(key, data)?,
                "sha256" => code::<Sha256>(key, data)?,
                "sha384" => code::<Sha384>(key, data)?,
                "sha512" => code::<Sha512>(key, data)?,
                other => {
                    return exec_err!(
                        "hmac has no method '{other}'; it has sha224, sha256, sha384 and sha512"
                    );
                }
            }))
        };
        let codes = (0..data.len()).map(row).collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(codes.into_iter().collect::<BinaryArray>()) as ArrayRef)
    }))
}

fn code<D: EagerHash>(key: &[u8], data: &[u8]) -> Result<Vec<u8>> {
    let keyed = <Hmac<D> as KeyInit>::new_from_slice(key);
    let mut keyed = keyed.map_err(|error| exec_datafusion_err!("the key of hmac: {error}"))?;
    keyed.update(data);
    Ok(keyed.finalize().into_bytes().to_vec())
}
