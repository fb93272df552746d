//! Whole columns of ids, which are read where they are: of Arrow by its PyCapsule interface, which
//! pandas, Polars, DuckDB and pyarrow have, and of NumPy by its array interface.

use crate::id::{Id, IntId};
use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::ffi_stream::ArrayStreamReader;
use arrow_array::{Array, ArrayRef, Int64Array, UInt64Array, downcast_integer_array, make_array};
use arrow_buffer::Buffer;
use arrow_schema::{ArrowError, DataType};
use hapax::{Dedup, Int, Prepared, seam};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyList, PyString, PyTuple};
use std::panic::AssertUnwindSafe;
use std::ptr::NonNull;
use std::sync::Arc;

/// A batch of ids that is complete: no id in it can be refused any more.
pub enum Batch {
    Digests(Vec<Prepared>),
    Columns(Vec<ArrayRef>),
}

/// A taker of ids of any kind, in order: a batch may come in several parts.
pub trait Sink {
    fn take<I: hapax::Id>(&mut self, ids: impl Iterator<Item = I>);
}

/// The digests of ids.
pub struct Digests<'d>(pub &'d Dedup, pub Vec<Prepared>);

impl Sink for Digests<'_> {
    fn take<I: hapax::Id>(&mut self, ids: impl Iterator<Item = I>) {
        self.1.extend(ids.map(|id| seam::digested(self.0, id)));
    }
}

/// Refuses an id that would be taken for the ids that its letters are.
pub fn must_be_several(ids: &Bound<'_, PyAny>) -> PyResult<()> {
    if ids.is_instance_of::<PyString>() || ids.is_instance_of::<PyBytes>() {
        return Err(PyTypeError::new_err("expected several ids, got one: pass it to `check`, or in a list"));
    }
    Ok(())
}

impl Batch {
    pub fn of(dedup: &Dedup, ids: &Bound<'_, PyAny>) -> PyResult<Self> {
        must_be_several(ids)?;
        if ids.is_instance_of::<PyList>() || ids.is_instance_of::<PyTuple>() {
            return Self::of_items(dedup, ids);
        }
        if ids.hasattr("__arrow_c_stream__")? {
            let capsule = ids.call_method0("__arrow_c_stream__")?.cast_into::<PyCapsule>()?;
            let stream = capsule.pointer_checked(Some(c"arrow_array_stream"))?.as_ptr().cast();
            // SAFETY: a capsule of this name has a stream, which this takes out of it.
            let chunks =
                unsafe { ArrayStreamReader::from_raw(stream) }.and_then(Iterator::collect::<Result<Vec<_>, _>>);
            return Self::of_arrow(chunks);
        }
        if ids.hasattr("__arrow_c_array__")? {
            let (schema, array): (Bound<'_, PyAny>, Bound<'_, PyAny>) =
                ids.call_method0("__arrow_c_array__")?.extract()?;
            let schema = schema.cast::<PyCapsule>()?.pointer_checked(Some(c"arrow_schema"))?.as_ptr();
            let array = array.cast::<PyCapsule>()?.pointer_checked(Some(c"arrow_array"))?.as_ptr();
            // SAFETY: capsules of these names have a schema and an array, which this takes out of
            // them.
            let chunk = unsafe {
                let schema = FFI_ArrowSchema::from_raw(schema.cast());
                from_ffi(FFI_ArrowArray::from_raw(array.cast()), &schema)
            };
            return Self::of_arrow(chunk.map(|chunk| vec![make_array(chunk)]));
        }
        if ids.hasattr("__array__")? {
            return Self::of_numpy(dedup, &ids.call_method0("__array__")?);
        }
        Self::of_items(dedup, ids)
    }

    fn of_items(dedup: &Dedup, ids: &Bound<'_, PyAny>) -> PyResult<Self> {
        let digest = |id: PyResult<Bound<'_, PyAny>>| Ok(seam::digested(dedup, Id::of(&id?)?));
        ids.try_iter()?.map(digest).collect::<PyResult<_>>().map(Batch::Digests)
    }

    fn of_arrow(chunks: Result<Vec<ArrayRef>, ArrowError>) -> PyResult<Self> {
        let chunks = chunks.map_err(|error| PyValueError::new_err(error.to_string()))?;
        chunks.into_iter().map(column).collect::<PyResult<_>>().map(Batch::Columns)
    }

    fn of_numpy(dedup: &Dedup, ids: &Bound<'_, PyAny>) -> PyResult<Self> {
        let [len] = ids.getattr("shape")?.extract::<Vec<usize>>()?[..] else {
            return Err(PyValueError::new_err("expected a column: an array of one dimension"));
        };
        let dtype = ids.getattr("dtype")?;
        let kind: String = dtype.getattr("kind")?.extract()?;
        match &*kind {
            "i" | "u" => {}
            "O" | "S" | "U" | "V" => return Self::of_items(dedup, &ids.call_method0("tolist")?),
            _ => {
                let text = format!("expected a column of integers, text or bytes; got the type {dtype}");
                return Err(PyTypeError::new_err(text));
            }
        }
        // The array itself, or a copy whose integers have 64 bits, and stand one behind the other.
        let ids = ids.py().import("numpy")?.call_method1("require", (ids, format!("<{kind}8"), "CA"))?;
        let (data, _): (usize, bool) = ids.getattr("__array_interface__")?.get_item("data")?.extract()?;
        let start = NonNull::new(std::ptr::with_exposed_provenance_mut(data)).expect("an array of NumPy has data");
        // SAFETY: the array, which the column keeps, has as many integers there, aligned.
        let ints = unsafe { Buffer::from_custom_allocation(start, 8 * len, Arc::new(AssertUnwindSafe(ids.unbind()))) };
        let column: ArrayRef = match &*kind {
            "i" => Arc::new(Int64Array::new(ints.into(), None)),
            _ => Arc::new(UInt64Array::new(ints.into(), None)),
        };
        Ok(Batch::Columns(vec![column]))
    }

    /// Gives all ids to `sink`, in order.
    pub fn pour(&self, dedup: &Dedup, sink: &mut impl Sink) {
        match self {
            Batch::Digests(digests) => sink.take(digests.iter().copied()),
            Batch::Columns(columns) => columns.iter().for_each(|column| pour(dedup, column, sink)),
        }
    }
}

/// Returns a column whose every value is an id, or an error.
fn column(array: ArrayRef) -> PyResult<ArrayRef> {
    let nulls = array.logical_null_count();
    if nulls > 0 {
        return Err(PyValueError::new_err(format!("expected an id in each row, got {nulls} rows without one")));
    }
    let array = match array.as_struct_opt() {
        Some(table) if table.num_columns() == 1 => return column(table.column(0).clone()),
        _ => array,
    };
    let values = array.as_any_dictionary_opt().map_or(array.data_type(), |dictionary| dictionary.values().data_type());
    use DataType::*;
    if values.is_integer()
        || matches!(values, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView | FixedSizeBinary(_))
    {
        return Ok(array);
    }
    Err(PyTypeError::new_err(format!("expected one column of integers, text or bytes; got the type {values}")))
}

fn pour(dedup: &Dedup, array: &dyn Array, sink: &mut impl Sink) {
    if let Some(dictionary) = array.as_any_dictionary_opt() {
        let mut values = Digests(dedup, Vec::new());
        // Of the dictionary, which has no dictionary of its own.
        plain(dictionary.values(), &mut values);
        return sink.take(dictionary.normalized_keys().into_iter().map(|key| values.1[key]));
    }
    plain(array, sink)
}

#[expect(clippy::unnecessary_cast, reason = "one of the types needs none")]
fn plain(array: &dyn Array, sink: &mut impl Sink) {
    macro_rules! values {
        ($values:expr) => {{
            let values = $values;
            sink.take((0..values.len()).map(|i| values.value(i)))
        }};
    }
    downcast_integer_array!(
        array => match array.data_type() {
            DataType::UInt64 => ints(array.values().iter().map(|&int| int as u64), sink),
            _ => sink.take(array.values().iter().map(|&int| Int::from(int as i64))),
        },
        DataType::Utf8 => values!(array.as_string::<i32>()),
        DataType::LargeUtf8 => values!(array.as_string::<i64>()),
        DataType::Utf8View => values!(array.as_string_view()),
        DataType::Binary => values!(array.as_binary::<i32>()),
        DataType::LargeBinary => values!(array.as_binary::<i64>()),
        DataType::BinaryView => values!(array.as_binary_view()),
        DataType::FixedSizeBinary(_) => values!(array.as_fixed_size_binary()),
        other => unreachable!("columns of {other} are refused"),
    )
}

/// Integers of 64 bits without a sign, which are mostly small enough to have one.
fn ints(ints: impl Iterator<Item = u64> + Clone, sink: &mut impl Sink) {
    if ints.clone().all(|int| i64::try_from(int).is_ok()) {
        return sink.take(ints.map(Int::from));
    }
    sink.take(ints.map(|int| IntId::from(i128::from(int))))
}
