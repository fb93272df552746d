//! The engine in memory.

use crate::claim;
use crate::columns::Batch;
use crate::errors::raise;
use crate::id::{Id, Seconds, time};
use crate::options;
use crate::verdict;
use hapax::{Attempt, ClaimOptions, Forgotten, Timestamp};
use pyo3::prelude::*;
use pyo3::types::PyDict;

#[pyclass(frozen, module = "hapax")]
pub struct Dedup {
    /// In a box, since it is aligned to cache lines, as Python's objects are not.
    engine: Box<hapax::Dedup>,
    /// True if a check may wait for a disk: then other threads of Python run meanwhile.
    waits: bool,
}

impl Dedup {
    fn decide<T: Send>(
        &self,
        id: &Bound<'_, PyAny>,
        decide: impl FnOnce(&hapax::Dedup, &[u8]) -> T + Send,
    ) -> PyResult<T> {
        let bytes = Id::of(id)?;
        let (engine, bytes) = (&self.engine, bytes.as_ref());
        Ok(if self.waits { id.py().detach(|| decide(engine, bytes)) } else { decide(engine, bytes) })
    }

    fn verdicts(&self, batch: &Batch, at: Option<Timestamp>) -> Vec<hapax::Verdict> {
        let (mut all, mut some) = (Vec::with_capacity(batch.len()), Vec::new());
        let Some(at) = at else {
            batch.digests(&self.engine, &mut |digests| {
                self.engine.check_batch(digests.iter().copied(), &mut some);
                all.append(&mut some);
            });
            return all;
        };
        // In one call: a batch with a time is refused as a whole, and an empty one is a watermark.
        let mut gathered = Vec::with_capacity(batch.len());
        batch.digests(&self.engine, &mut |digests| gathered.extend_from_slice(digests));
        self.engine.check_batch_at(gathered, at, &mut all);
        all
    }
}

#[pymethods]
impl Dedup {
    #[new]
    #[pyo3(signature = (window = None, **options))]
    fn new(py: Python<'_>, window: Option<&Bound<'_, PyAny>>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let options = options.map_or_else(|| Ok(PyDict::new(py)), |options| options.copy())?;
        options.set_item("window", window)?;
        let (builder, waits) = (options::builder(&options)?, options.contains("journal")?);
        Ok(Dedup { engine: Box::new(raise(py.detach(|| builder.build()))?), waits })
    }

    fn with_scope(&self, scope: &str) -> Self {
        Dedup { engine: Box::new(self.engine.with_scope(scope)), waits: self.waits }
    }

    #[pyo3(signature = (id, at = None))]
    fn check(&self, id: &Bound<'_, PyAny>, at: Option<&Bound<'_, PyAny>>) -> PyResult<Py<PyAny>> {
        let verdict = match at.map(time).transpose()? {
            None => self.decide(id, |engine, id| engine.check(id)),
            Some(at) => self.decide(id, |engine, id| engine.check_at(id, at)),
        };
        verdict::object(id.py(), verdict?)
    }

    #[pyo3(signature = (ids, at = None))]
    fn check_batch<'py>(&self, ids: &Bound<'py, PyAny>, at: Option<&Bound<'_, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        let (batch, at) = (Batch::of(&self.engine, ids)?, at.map(time).transpose()?);
        verdict::objects(ids.py(), &ids.py().detach(|| self.verdicts(&batch, at)))
    }

    #[pyo3(signature = (id, *, lease = None, fingerprint = None))]
    fn claim(&self, id: &Bound<'_, PyAny>, lease: Option<Seconds>, fingerprint: Option<&[u8]>) -> PyResult<Py<PyAny>> {
        let mut options = ClaimOptions::new();
        if let Some(Seconds(lease)) = lease {
            options = options.lease(lease);
        }
        if let Some(fingerprint) = fingerprint {
            options = options.fingerprint(fingerprint);
        }
        let attempt = self.decide(id, |engine, id| match engine.claim_with(id, options) {
            Attempt::Claimed(claim) => Attempt::Claimed(claim.into_owned()),
            Attempt::InProgress { lease_left } => Attempt::InProgress { lease_left },
            Attempt::Duplicate(verdict) => Attempt::Duplicate(verdict),
            Attempt::Mismatch => Attempt::Mismatch,
            Attempt::TooMany => Attempt::TooMany,
        })?;
        claim::in_memory(id.py(), attempt)
    }

    fn contains(&self, id: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
        self.decide(id, |engine, id| engine.contains(id).map(|tier| tier.to_string()))
    }

    fn forget(&self, id: &Bound<'_, PyAny>) -> PyResult<&'static str> {
        self.decide(id, |engine, id| match engine.forget(id) {
            Forgotten::Entirely => "entirely",
            Forgotten::ExceptByHistory => "except by history",
            Forgotten::InProgress => "in progress",
        })
    }

    fn clear(&self, py: Python<'_>) {
        py.detach(|| self.engine.clear());
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| raise(self.engine.journal().and_then(|journal| journal.flush())))
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        options::stats(py, &py.detach(|| self.engine.stats()))
    }
}
