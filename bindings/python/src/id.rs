//! Ids and times as Python has them.

use crate::errors::wrong_option;
use hapax::{Key, Timestamp};
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyDateTime, PyString, PyTuple, PyType};
use std::time::{Duration, SystemTime};

/// The bytes of an id.
pub enum Id<'a, 'py> {
    Borrowed(&'a [u8]),
    Uuid(Bound<'py, PyBytes>),
    Int(IntId),
    Composite(Key),
}

impl AsRef<[u8]> for Id<'_, '_> {
    fn as_ref(&self) -> &[u8] {
        match self {
            Id::Borrowed(bytes) => bytes,
            Id::Uuid(bytes) => bytes.as_bytes(),
            Id::Int(int) => int.as_ref(),
            Id::Composite(key) => key.as_ref(),
        }
    }
}

/// An integer as an id: its 8 little-endian bytes, as `Int::from(17_i64)` has them, whatever type
/// it came in; 16 if it does not fit.
#[derive(Clone, Copy)]
pub struct IntId([u8; 16]);

impl From<i128> for IntId {
    fn from(int: i128) -> Self {
        IntId(int.to_le_bytes())
    }
}

impl AsRef<[u8]> for IntId {
    fn as_ref(&self) -> &[u8] {
        let is_wide = i64::try_from(i128::from_le_bytes(self.0)).is_err();
        &self.0[..if is_wide { 16 } else { 8 }]
    }
}

fn refused(id: &Bound<'_, PyAny>) -> PyErr {
    let expected = "expected an id: str, bytes, int, uuid.UUID, or a tuple of these and None";
    PyTypeError::new_err(format!("{expected}; got {}", id.get_type()))
}

fn int(id: &Bound<'_, PyAny>) -> PyResult<IntId> {
    match id.extract::<i64>() {
        Ok(int) => Ok(i128::from(int).into()),
        Err(_) => id.extract::<i128>().map(IntId::from).map_err(|_| {
            PyOverflowError::new_err("expected an id of at most 127 bits and a sign; pass larger ones as bytes")
        }),
    }
}

impl<'a, 'py> Id<'a, 'py> {
    pub fn of(id: &'a Bound<'py, PyAny>) -> PyResult<Self> {
        if let Ok(text) = id.cast::<PyString>() {
            return Ok(Id::Borrowed(text.to_str()?.as_bytes()));
        }
        if let Ok(bytes) = id.cast::<PyBytes>() {
            return Ok(Id::Borrowed(bytes.as_bytes()));
        }
        if let Ok(parts) = id.cast::<PyTuple>() {
            return composite(parts).map(Id::Composite);
        }
        static UUID: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        if id.is_instance(UUID.import(id.py(), "uuid", "UUID")?)? {
            return Ok(Id::Uuid(id.getattr("bytes")?.cast_into::<PyBytes>()?));
        }
        // Integers of NumPy have an index, too.
        if id.is_instance_of::<PyBool>() || !id.hasattr("__index__")? { Err(refused(id)) } else { int(id).map(Id::Int) }
    }
}

fn composite(parts: &Bound<'_, PyTuple>) -> PyResult<Key> {
    let mut key = Key::new();
    for part in parts.iter() {
        if part.is_none() {
            key.null();
            continue;
        }
        match Id::of(&part)? {
            Id::Int(IntId(int)) => key.int(i128::from_le_bytes(int)),
            Id::Composite(_) => return Err(refused(&part)),
            bytes => key.bytes(bytes),
        };
    }
    Ok(key)
}

/// Returns a time: an aware datetime, or nanoseconds since 1970.
pub fn time(at: &Bound<'_, PyAny>) -> PyResult<Timestamp> {
    let time = if at.is_instance_of::<PyDateTime>() {
        at.extract::<SystemTime>().map(Timestamp::from)
    } else {
        at.extract::<u64>().map(Timestamp::from_nanos)
    };
    let expected = "expected a time since 1970: a datetime with a time zone, or nanoseconds as an int; got";
    time.map_err(|_| PyValueError::new_err(format!("{expected} {at:?}")))
}

/// A duration: a timedelta, or seconds.
pub struct Seconds(pub Duration);

impl FromPyObject<'_, '_> for Seconds {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let duration = match value.extract::<f64>() {
            Ok(secs) => Duration::try_from_secs_f64(secs).ok(),
            Err(_) => value.extract::<Duration>().ok(),
        };
        let wrong = || wrong_option(format!("expected a timedelta or seconds, from 0; got {:?}", &*value));
        duration.map(Seconds).ok_or_else(wrong)
    }
}
