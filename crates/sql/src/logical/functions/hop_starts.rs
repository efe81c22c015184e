//! The windows to which a time belongs, as a list of their starts.

use std::sync::Arc;

use datafusion::arrow::array::types::TimestampNanosecondType;
use datafusion::arrow::array::{Array, AsArray, ListBuilder, TimestampNanosecondBuilder};
use datafusion::arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion::common::{Result, exec_datafusion_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};

use super::windows::start;

/// Returns the list of the starts of all windows `[n * slide + offset, n * slide + offset + size)` that contain a time; NULL for NULL.
pub(crate) fn hop_starts(time: Expr, (size_ns, slide_ns, offset_ns): (i64, i64, i64)) -> Expr {
    let signature = Signature::new(TypeSignature::Any(1), Volatility::Immutable);
    ScalarUDF::new_from_impl(HopStarts { size_ns, slide_ns, offset_ns, signature }).call(vec![time])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct HopStarts {
    size_ns: i64,
    slide_ns: i64,
    offset_ns: i64,
    signature: Signature,
}

impl ScalarUDFImpl for HopStarts {
    fn name(&self) -> &str {
        "window starts"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        let [time @ DataType::Timestamp(TimeUnit::Nanosecond, _)] = arguments else {
            return plan_err!("windows are of timestamps");
        };
        Ok(DataType::List(Arc::new(Field::new_list_field(time.clone(), true))))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let times = args.args[0].clone().into_array(args.number_rows)?;
        let times = times
            .as_primitive_opt::<TimestampNanosecondType>()
            .ok_or_else(|| exec_datafusion_err!("windows are of timestamps, found {}", times.data_type()))?;
        let item = TimestampNanosecondBuilder::new().with_data_type(times.data_type().clone());
        let mut lists = ListBuilder::new(item);
        for time_ns in times {
            if let Some(time_ns) = time_ns {
                let mut window_ns = Some(start(time_ns, self.slide_ns, self.offset_ns));
                while let Some(start_ns) = window_ns.filter(|start_ns| time_ns - start_ns < self.size_ns) {
                    lists.values().append_value(start_ns);
                    window_ns = start_ns.checked_sub(self.slide_ns);
                }
            }
            lists.append(time_ns.is_some());
        }
        Ok(ColumnarValue::Array(Arc::new(lists.finish())))
    }
}
