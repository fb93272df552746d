//! The engine in memory.

use crate::claim;
use crate::columns::{Batch, Digests, Sink};
use crate::errors::raise;
use crate::id::{Id, Seconds, time};
use crate::options;
use crate::verdict;
use hapax::{ClaimOptions, Forgotten, Timestamp};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// An engine in this process's memory, which tells whether an id was seen before.
///
/// >>> import hapax
/// >>> dedup = hapax.Dedup(window=600, capacity=100_000)
/// >>> dedup.check("order-17").outcome, dedup.check("order-17").outcome
/// ('fresh', 'duplicate')
///
/// Durations are timedeltas or seconds. Options: `window` (10 minutes), `capacity` (ids to begin
/// with, a million), `max_memory` (bytes), `history` (a History), `journal` (a directory),
/// `long_memory` (a LongMemory), `lease` of claims (30 s), `scope`, `refresh_on_duplicate`, `key`
/// (16 secret bytes), `clock` (a ManualClock). It is used from any thread. After a fork a child has
/// a copy, without the journal.
#[pyclass(frozen, module = "hapax")]
pub struct Dedup {
    /// In a box, since it is aligned to cache lines, as Python's objects are not.
    engine: Box<hapax::Dedup>,
    /// True if a check may wait for a disk: then other threads of Python run meanwhile.
    waits: bool,
}

impl Dedup {
    fn decide<'s, T: Send>(
        &'s self,
        id: &Bound<'_, PyAny>,
        decide: impl FnOnce(&'s hapax::Dedup, &[u8]) -> T + Send,
    ) -> PyResult<T> {
        let bytes = Id::of(id)?;
        let (engine, bytes) = (&self.engine, bytes.as_ref());
        Ok(if self.waits { id.py().detach(|| decide(engine, bytes)) } else { decide(engine, bytes) })
    }

    fn verdicts(&self, batch: &Batch, at: Option<Timestamp>) -> Vec<hapax::Verdict> {
        let Some(at) = at else {
            let mut checks = Checks(&self.engine, Vec::new());
            batch.pour(&self.engine, &mut checks);
            return checks.1;
        };
        // In one call: a batch with a time is refused as a whole, and an empty one is a watermark.
        let (mut ids, mut all) = (Digests(&self.engine, Vec::new()), Vec::new());
        batch.pour(&self.engine, &mut ids);
        self.engine.check_batch_at(ids.1, at, &mut all);
        all
    }
}

/// The verdicts of a batch, part by part.
struct Checks<'d>(&'d hapax::Dedup, Vec<hapax::Verdict>);

impl Sink for Checks<'_> {
    fn take<I: hapax::Id>(&mut self, ids: impl Iterator<Item = I>) {
        let mut verdicts = Vec::new();
        self.0.check_batch(ids, &mut verdicts);
        self.1.append(&mut verdicts);
    }
}

#[pymethods]
impl Dedup {
    #[new]
    #[pyo3(signature = (window = None, **options))]
    fn new(py: Python<'_>, window: Option<&Bound<'_, PyAny>>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let options = options.map_or_else(|| Ok(PyDict::new(py)), |options| options.copy())?;
        options.set_item("window", window)?;
        let (builder, waits) =
            (options::builder(&options)?, options.contains("journal")? || options.contains("long_memory")?);
        Ok(Dedup { engine: Box::new(raise(py.detach(|| builder.build()))?), waits })
    }

    /// Returns a handle to the same engine for another scope: the same id there is another id.
    fn with_scope(&self, scope: &str) -> Self {
        Dedup { engine: Box::new(self.engine.with_scope(scope)), waits: self.waits }
    }

    /// Checks an id: fresh, a duplicate or in progress. A fresh one is remembered from now on.
    ///
    /// >>> import hapax, uuid
    /// >>> dedup = hapax.Dedup()
    /// >>> ids = ["17", b"17", 17, ("orders", 17, None), uuid.UUID(int=17)]
    /// >>> [dedup.check(id).is_fresh for id in ids]
    /// [True, False, True, True, True]
    ///
    /// With `at`, an aware datetime or nanoseconds since 1970, it counts as of the event's time.
    #[pyo3(signature = (id, at = None))]
    fn check(&self, id: &Bound<'_, PyAny>, at: Option<&Bound<'_, PyAny>>) -> PyResult<Py<PyAny>> {
        let verdict = match at.map(time).transpose()? {
            None => self.decide(id, |engine, id| engine.check(id)),
            Some(at) => self.decide(id, |engine, id| engine.check_at(id, at)),
        };
        verdict::object(id.py(), verdict?)
    }

    /// Checks many ids, in order, several times as fast as one by one, while other threads run: a
    /// list, or a column of NumPy, Arrow, pandas, Polars or DuckDB, which is read where it is. If
    /// any of them is no id, it raises, and none is remembered.
    ///
    /// >>> import hapax
    /// >>> hapax.Dedup().check_batch(["a", "a", "b"]).fresh()
    /// [True, False, True]
    #[pyo3(signature = (ids, at = None))]
    fn check_batch<'py>(&self, ids: &Bound<'py, PyAny>, at: Option<&Bound<'_, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        let (batch, at) = (Batch::of(&self.engine, ids)?, at.map(time).transpose()?);
        verdict::objects(ids.py(), &ids.py().detach(|| self.verdicts(&batch, at)))
    }

    /// Claims an id: nobody else gets it until the claim is completed, released or dropped, or its
    /// lease has expired. Of another message with the id, by its `fingerprint`, it is a mismatch.
    ///
    /// >>> import hapax
    /// >>> dedup = hapax.Dedup()
    /// >>> with dedup.claim("m-1"):
    /// ...     dedup.claim("m-1").outcome
    /// 'in progress'
    /// >>> dedup.claim("m-1").outcome
    /// 'duplicate'
    #[pyo3(signature = (id, *, lease = None, fingerprint = None))]
    fn claim(&self, id: &Bound<'_, PyAny>, lease: Option<Seconds>, fingerprint: Option<&[u8]>) -> PyResult<Py<PyAny>> {
        let options = lease.map_or_else(ClaimOptions::new, |lease| ClaimOptions::new().lease(lease.0));
        let options = fingerprint.map_or(options, |fingerprint| options.fingerprint(fingerprint));
        claim::in_memory(id.py(), self.decide(id, |engine, id| engine.claim_with(id, options))?)
    }

    /// Returns the tier that remembers an id, or None. Changes nothing.
    fn contains(&self, id: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
        self.decide(id, |engine, id| engine.contains(id).map(|tier| tier.to_string()))
    }

    /// Forgets an id, so that it can be accepted again: "entirely", "except by history", or not,
    /// since it is "in progress".
    fn forget(&self, id: &Bound<'_, PyAny>) -> PyResult<&'static str> {
        self.decide(id, |engine, id| match engine.forget(id) {
            Forgotten::Entirely => "entirely",
            Forgotten::ExceptByHistory => "except by history",
            Forgotten::InProgress => "in progress",
        })
    }

    /// Forgets all ids that were accepted before the call.
    fn clear(&self, py: Python<'_>) {
        py.detach(|| self.engine.clear());
    }

    /// Waits until all that was accepted before is on disk, in the journal.
    ///
    /// >>> import hapax, tempfile
    /// >>> with tempfile.TemporaryDirectory() as directory:
    /// ...     dedup = hapax.Dedup(journal=directory + "/journal")
    /// ...     dedup.check("a").is_fresh, dedup.flush()
    /// ...     del dedup  # or kill -9
    /// ...     hapax.Dedup(journal=directory + "/journal").check("a").is_fresh
    /// (True, None)
    /// False
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| raise(self.engine.journal().and_then(|journal| journal.flush())))
    }

    /// Returns what the engine has counted and what it holds, as a dict.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        options::stats(py, &py.detach(|| self.engine.stats()))
    }
}
