//! Attempts to claim an id, of an engine in memory and of one with a store, as Python's objects.

use crate::errors::{exception, raise};
use crate::id::Seconds;
use crate::runtime::{Calls, answer};
use crate::verdict;
use hapax::{Attempt, Verdict};
use hapax_store::{DynStore, NotCompleted, TieredAttempt, TieredClaim};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::{Arc, Mutex};
use std::time::Duration;

enum Held {
    Memory(hapax::Claim<'static>),
    Stored(TieredClaim<DynStore>),
}

/// A claim, until it ends. Dropping it releases the id.
#[pyclass(frozen, module = "hapax")]
pub struct HeldClaim {
    held: Arc<Mutex<Option<Held>>>,
    calls: Calls,
}

/// Returns an attempt as Python's object.
fn object(
    py: Python<'_>,
    outcome: &str,
    held: Option<(Held, u64, bool, Calls)>,
    lease_left: Option<Duration>,
    done: Option<(Verdict, Option<Vec<u8>>)>,
) -> PyResult<Py<PyAny>> {
    let (held, token, is_verified) = match held {
        Some((held, token, is_verified, calls)) => {
            let held = HeldClaim { held: Arc::new(Mutex::new(Some(held))), calls };
            (Some(Py::new(py, held)?), Some(token), is_verified)
        }
        None => (None, None, false),
    };
    let (verdict, result) = match done {
        Some((verdict, result)) => (Some(verdict::object(py, verdict)?), result.map(|bytes| PyBytes::new(py, &bytes))),
        None => (None, None),
    };
    let class = py.import("hapax._answers")?.getattr("Claim")?;
    Ok(class.call1((outcome, held, token, is_verified, lease_left, verdict, result))?.unbind())
}

pub fn in_memory(py: Python<'_>, attempt: Attempt<'static>) -> PyResult<Py<PyAny>> {
    match attempt {
        Attempt::Claimed(claim) => {
            let token = claim.token().as_u64();
            object(py, "claimed", Some((Held::Memory(claim), token, true, Calls::here(false))), None, None)
        }
        Attempt::InProgress { lease_left } => object(py, "in progress", None, Some(lease_left), None),
        Attempt::Duplicate(verdict) => object(py, "duplicate", None, None, Some((verdict, None))),
        Attempt::Mismatch => object(py, "mismatch", None, None, None),
        Attempt::TooMany => object(py, "too many", None, None, None),
    }
}

pub fn stored(py: Python<'_>, attempt: TieredAttempt<DynStore>, calls: Calls) -> PyResult<Py<PyAny>> {
    match attempt {
        TieredAttempt::Claimed(claim) => {
            let (token, is_verified) = (claim.token().as_u64(), claim.is_verified());
            object(py, "claimed", Some((Held::Stored(claim), token, is_verified, calls)), None, None)
        }
        TieredAttempt::InProgress { lease_left } => object(py, "in progress", None, Some(lease_left), None),
        TieredAttempt::Duplicate(done) => object(py, "duplicate", None, None, Some((done.verdict, done.result))),
        TieredAttempt::Mismatch => object(py, "mismatch", None, None, None),
        TieredAttempt::TooMany => object(py, "too many", None, None, None),
    }
}

impl HeldClaim {
    fn take(&self) -> PyResult<Held> {
        let held = self.held.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        held.ok_or_else(|| exception("HapaxError", ("expected a claim that has not ended, got one that has",)))
    }
}

#[pymethods]
impl HeldClaim {
    fn complete<'py>(&self, py: Python<'py>, result: Option<Vec<u8>>) -> PyResult<Bound<'py, PyAny>> {
        match self.take()? {
            Held::Memory(claim) if result.is_none() => raise(claim.complete()).map(|()| py.None().into_bound(py)),
            Held::Memory(_) => Err(PyTypeError::new_err("got a result, which only an engine with a store keeps")),
            Held::Stored(claim) => self.calls.call(py, async move {
                let completed = match result {
                    None => claim.complete().await,
                    Some(result) => claim.complete_with(result).await,
                };
                answer(completed.map_err(NotCompleted::into_error), |py, ()| Ok(py.None()))
            }),
        }
    }

    fn release<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self.take()? {
            Held::Memory(claim) => raise(claim.release()).map(|()| py.None().into_bound(py)),
            Held::Stored(claim) => {
                self.calls.call(py, async move { answer(claim.release().await, |py, ()| Ok(py.None())) })
            }
        }
    }

    fn fail<'py>(&self, py: Python<'py>, retry_after: Seconds) -> PyResult<Bound<'py, PyAny>> {
        match self.take()? {
            Held::Memory(claim) => raise(claim.fail(retry_after.0)).map(|()| py.None().into_bound(py)),
            Held::Stored(claim) => {
                self.calls.call(py, async move { answer(claim.fail(retry_after.0).await, |py, ()| Ok(py.None())) })
            }
        }
    }

    fn renew<'py>(&self, py: Python<'py>, lease: Seconds) -> PyResult<Bound<'py, PyAny>> {
        let (place, lease) = (Arc::clone(&self.held), lease.0);
        let put_back = move |held| *place.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(held);
        match self.take()? {
            Held::Memory(mut claim) => {
                let renewed = claim.renew(lease);
                put_back(Held::Memory(claim));
                raise(renewed).map(|()| py.None().into_bound(py))
            }
            Held::Stored(mut claim) => self.calls.call(py, async move {
                let renewed = claim.renew(lease).await;
                put_back(Held::Stored(claim));
                answer(renewed, |py, ()| Ok(py.None()))
            }),
        }
    }
}
