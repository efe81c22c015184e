//! `length`, `substr` and `substring` of bytes, as in PostgreSQL: they count bytes. DataFusion (55.2) knows them of texts only.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BinaryArray};
use datafusion::arrow::compute::kernels::length::length;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
};

/// The function that gives a part of a text or of bytes, of one that knows texts.
pub(super) fn part_of(function: &ScalarUDF) -> ScalarUDF {
    let number = DataType::Int64;
    let of_bytes = vec![
        TypeSignature::Exact(vec![DataType::Binary, number.clone()]),
        TypeSignature::Exact(vec![DataType::Binary, number.clone(), number]),
    ];
    OfBytes::made(function, of_bytes, ByteFunction::Part)
}

/// The function that gives the length of a text or of bytes, of one that knows texts.
pub(super) fn length_of(function: &ScalarUDF) -> ScalarUDF {
    OfBytes::made(function, vec![TypeSignature::Exact(vec![DataType::Binary])], ByteFunction::Length)
}

/// Plans `substring`, which is syntax, as a call of this function.
#[derive(Debug)]
pub(super) struct Substring(pub Arc<ScalarUDF>);

impl ExprPlanner for Substring {
    fn plan_substring(&self, arguments: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(PlannerResult::Planned(self.0.call(arguments)))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ByteFunction {
    Part,
    Length,
}

/// A function of texts that takes bytes, too.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OfBytes {
    function: ScalarUDF,
    of_bytes: ByteFunction,
    signature: Signature,
}

impl OfBytes {
    fn made(function: &ScalarUDF, takes: Vec<TypeSignature>, of_bytes: ByteFunction) -> ScalarUDF {
        let given = function.signature();
        let mut kinds = match &given.type_signature {
            TypeSignature::OneOf(kinds) => kinds.clone(),
            other => vec![other.clone()],
        };
        kinds.extend(takes);
        let signature = Signature { type_signature: TypeSignature::OneOf(kinds), ..given.clone() };
        ScalarUDF::new_from_impl(OfBytes { function: function.clone(), of_bytes, signature })
    }
}

impl ScalarUDFImpl for OfBytes {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        self.function.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match (types.first(), self.of_bytes) {
            (Some(DataType::Binary), ByteFunction::Part) => Ok(DataType::Binary),
            (Some(DataType::Binary), ByteFunction::Length) => Ok(DataType::Int32),
            _ => self.function.inner().return_type(types),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if args.args[0].data_type() != DataType::Binary {
            return self.function.inner().invoke_with_args(args);
        }
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        Ok(ColumnarValue::Array(match self.of_bytes {
            ByteFunction::Length => length(&arrays[0])?,
            ByteFunction::Part => {
                let parts = (0..arrays[0].len()).map(|row| part(&arrays, row));
                Arc::new(BinaryArray::from_iter(parts.collect::<Result<Vec<_>>>()?))
            }
        }))
    }
}

/// The part of a row; `None` where an argument is NULL.
fn part(arguments: &[ArrayRef], row: usize) -> Result<Option<Vec<u8>>> {
    if arguments.iter().any(|argument| argument.is_null(row)) {
        return Ok(None);
    }
    let bytes = arguments[0].as_binary::<i32>().value(row);
    let number = |argument: &ArrayRef| argument.as_primitive::<Int64Type>().value(row);
    let first = number(&arguments[1]);
    let end = match arguments.get(2).map(number) {
        Some(length) if length < 0 => return exec_err!("negative substring length not allowed"),
        Some(length) => first.saturating_add(length),
        None => i64::MAX,
    };
    // Positions count from 1; those before it are there, and empty.
    let place = |position: i64| usize::try_from(position - 1).unwrap_or(0).min(bytes.len());
    let (first, end) = (place(first.max(1)), place(end.max(1)));
    Ok(Some(bytes[first..end.max(first)].to_vec()))
}
