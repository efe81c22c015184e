//! `fft(vector)`, `fft_combine(even, odd)` and `fft_magnitudes(spectrum)`: a spectrum is a struct of two vectors, `re`
//! and `im`.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StructArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::vectors::{Vectors, append, is_vector, vector_type, vectors};
use crate::logical::functions::fourier::{Spectrum, combine, transform};
use crate::planning_limits::check_room;

/// The functions.
pub(crate) fn functions() -> [ScalarUDF; 3] {
    [Kind::Transform, Kind::Combine, Kind::Magnitudes]
        .map(|kind| ScalarUDF::new_from_impl(Fourier::new(kind)))
}

/// What an element of a vector takes while its transform is computed: its halves, their spectra, and those put together.
const BYTES_PER_ELEMENT: u64 = 96;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Transform,
    Combine,
    Magnitudes,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Fourier {
    kind: Kind,
    signature: Signature,
}

impl Fourier {
    fn new(kind: Kind) -> Self {
        let arguments = if kind == Kind::Combine { 2 } else { 1 };
        Fourier { kind, signature: Signature::any(arguments, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Fourier {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Transform => "fft",
            Kind::Combine => "fft_combine",
            Kind::Magnitudes => "fft_magnitudes",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match (self.kind, arguments) {
            (Kind::Transform, [argument]) if is_vector(argument) => Ok(spectrum_type()),
            (Kind::Combine, [even, odd]) if is_spectrum(even) && is_spectrum(odd) => Ok(spectrum_type()),
            (Kind::Magnitudes, [argument]) if is_spectrum(argument) => Ok(vector_type()),
            (Kind::Transform, _) => plan_err!("fft takes a vector, DOUBLE[]: fft(signal)"),
            (Kind::Combine, _) => plan_err!(
                "fft_combine takes the spectra of the elements at even and at odd indexes: \
                 fft_combine(fft(array_slice(signal, 1, -1, 2)), fft(array_slice(signal, 2, -1, 2)))"
            ),
            (Kind::Magnitudes, _) => {
                plan_err!("fft_magnitudes takes a spectrum: fft_magnitudes(fft(signal))")
            }
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let made = match (self.kind, arrays.as_slice()) {
            (Kind::Transform, [signals]) => {
                let signals = Vectors::of(signals)?;
                let longest = (0..signals.len()).filter_map(|row| signals.at(row)).map(<[f64]>::len).max();
                check_room("fft()", longest.unwrap_or(0) as u64 * BYTES_PER_ELEMENT)?;
                spectra((0..signals.len()).map(|row| signals.at(row).map(transform)))?
            }
            (Kind::Combine, [even, odd]) => {
                let (even, odd) = (Spectra::of(even)?, Spectra::of(odd)?);
                spectra((0..even.len()).map(|row| Some(combine(&even.at(row)?, &odd.at(row)?))))?
            }
            (Kind::Magnitudes, [spectra]) => magnitudes(&Spectra::of(spectra)?),
            _ => return exec_err!("{}() has other arguments", self.name()),
        };
        Ok(ColumnarValue::Array(made))
    }
}

fn spectrum_type() -> DataType {
    DataType::Struct(spectrum_fields())
}

fn spectrum_fields() -> Fields {
    Fields::from(vec![Field::new("re", vector_type(), true), Field::new("im", vector_type(), true)])
}

fn is_spectrum(data_type: &DataType) -> bool {
    let DataType::Struct(fields) = data_type else { return data_type.is_null() };
    fields.len() == 2 && fields[0].name() == "re" && fields[1].name() == "im"
}

/// A column of spectra.
struct Spectra {
    whole: StructArray,
    re: Vectors,
    im: Vectors,
}

impl Spectra {
    fn of(column: &ArrayRef) -> Result<Spectra> {
        let whole = cast(column, &spectrum_type())?.as_struct().clone();
        Ok(Spectra { re: Vectors::of(whole.column(0))?, im: Vectors::of(whole.column(1))?, whole })
    }

    fn len(&self) -> usize {
        self.whole.len()
    }

    fn at(&self, row: usize) -> Option<Spectrum> {
        let (re, im) = (self.re.at(row)?, self.im.at(row)?);
        let is_whole = self.whole.is_valid(row) && re.len() == im.len();
        is_whole.then(|| Spectrum { re: re.to_vec(), im: im.to_vec() })
    }
}

/// A column of the spectra of rows; NULL for rows without one.
fn spectra(rows: impl Iterator<Item = Option<Result<Spectrum>>>) -> Result<ArrayRef> {
    let (mut re, mut im, mut known) = (vectors(), vectors(), Vec::new());
    for row in rows {
        let spectrum = row.transpose()?;
        known.push(spectrum.is_some());
        append(&mut re, spectrum.as_ref().map(|spectrum| spectrum.re.as_slice()));
        append(&mut im, spectrum.as_ref().map(|spectrum| spectrum.im.as_slice()));
    }
    let columns: Vec<ArrayRef> = vec![Arc::new(re.finish()), Arc::new(im.finish())];
    Ok(Arc::new(StructArray::try_new(spectrum_fields(), columns, Some(NullBuffer::from(known)))?))
}

fn magnitudes(spectra: &Spectra) -> ArrayRef {
    let mut made = vectors();
    for row in 0..spectra.len() {
        let spectrum = spectra.at(row);
        let lengths = spectrum.map(|Spectrum { re, im }| {
            re.iter().zip(&im).map(|(re, im)| re.hypot(*im)).collect::<Vec<f64>>()
        });
        append(&mut made, lengths.as_deref());
    }
    Arc::new(made.finish())
}
