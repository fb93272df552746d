//! Attempts to claim an id, of an engine in memory and of one with a store, as Python's objects.

use crate::errors::{exception, raise};
use crate::id::Seconds;
use crate::runtime::{Answer, Calls, answer};
use crate::verdict;
use hapax::{Attempt, Verdict};
use hapax_store::{Done, DynStore, NotCompleted, TieredAttempt, TieredClaim};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, OwnedMutexGuard};

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

/// An attempt as `hapax._answers.Claim` takes it: its outcome, the claim's token, whether it is
/// verified, and the claim, what is left of another's lease, and what is done, with its result.
type Parts = (&'static str, Option<(u64, bool, Held)>, Option<Duration>, Option<(Verdict, Option<Vec<u8>>)>);

/// The parts of an attempt, whichever of the two enums it is.
macro_rules! parts {
    ($attempt:ident, $of:expr, $held:expr, $done:expr) => {
        match $of {
            $attempt::Claimed(claim) => ("claimed", Some($held(claim)), None, None),
            $attempt::InProgress { lease_left, .. } => ("in progress", None, Some(lease_left), None),
            $attempt::Duplicate(done) => ("duplicate", None, None, Some($done(done))),
            $attempt::Mismatch => ("mismatch", None, None, None),
            $attempt::TooMany => ("too many", None, None, None),
        }
    };
}

pub fn in_memory(py: Python<'_>, attempt: Attempt<'_>) -> PyResult<Py<PyAny>> {
    let held = |claim: hapax::Claim<'_>| (claim.token().as_u64(), true, Held::Memory(claim.into_owned()));
    object(py, parts!(Attempt, attempt, held, |verdict| (verdict, None)), Calls::here(false))
}

pub fn stored(py: Python<'_>, attempt: TieredAttempt<DynStore>, calls: Calls) -> PyResult<Py<PyAny>> {
    let held = |claim: TieredClaim<_>| (claim.token().as_u64(), claim.is_verified(), Held::Stored(claim));
    object(py, parts!(TieredAttempt, attempt, held, |done: Done| (done.verdict, done.result)), calls)
}

fn object(py: Python<'_>, (outcome, held, lease_left, done): Parts, calls: Calls) -> PyResult<Py<PyAny>> {
    let claim = |held| HeldClaim { held: Arc::new(Mutex::new(Some(held))), calls };
    let held = held.map(|(token, is_verified, held)| (claim(held), token, is_verified));
    let (verdict, result) = done.map_or((None, None), |(verdict, result)| (Some(verdict), result));
    let verdict = verdict.map(|verdict| verdict::object(py, verdict)).transpose()?;
    let result = result.map(|result| PyBytes::new(py, &result));
    Ok(py.import("hapax._answers")?.call_method1("Claim", (outcome, held, lease_left, verdict, result))?.unbind())
}

impl HeldClaim {
    fn lock(&self) -> PyResult<OwnedMutexGuard<Option<Held>>> {
        let busy = |_| exception("HapaxError", ("expected a claim that is not being renewed: await that first",));
        Arc::clone(&self.held).try_lock_owned().map_err(busy)
    }

    fn take(&self) -> PyResult<Held> {
        self.lock()?.take().ok_or_else(ended)
    }
}

fn ended() -> PyErr {
    exception("HapaxError", ("expected a claim that has not ended, got one that has",))
}

#[pymethods]
impl HeldClaim {
    #[getter]
    fn awaits(&self) -> bool {
        self.calls.awaits
    }

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

    /// Releases the id: at once, or when its work may be tried again.
    fn release<'py>(&self, py: Python<'py>, retry_after: Option<Seconds>) -> PyResult<Bound<'py, PyAny>> {
        match (self.take()?, retry_after) {
            (Held::Memory(claim), None) => raise(claim.release()).map(|()| py.None().into_bound(py)),
            (Held::Memory(claim), Some(after)) => raise(claim.fail(after.0)).map(|()| py.None().into_bound(py)),
            (Held::Stored(claim), after) => self.calls.call(py, async move {
                let ended = match after {
                    None => claim.release().await,
                    Some(after) => claim.fail(after.0).await,
                };
                answer(ended, |py, ()| Ok(py.None()))
            }),
        }
    }

    /// Cancelling it keeps the claim, which stays behind its lock.
    fn renew<'py>(&self, py: Python<'py>, lease: Seconds) -> PyResult<Bound<'py, PyAny>> {
        let (mut held, lease) = (self.lock()?, lease.0);
        if let Some(Held::Memory(claim)) = &mut *held {
            return raise(claim.renew(lease)).map(|()| py.None().into_bound(py));
        }
        self.calls.call(py, async move {
            match &mut *held {
                Some(Held::Stored(claim)) => answer(claim.renew(lease).await, |py, ()| Ok(py.None())),
                _ => Box::new(|_: Python<'_>| Err(ended())) as Answer,
            }
        })
    }
}
