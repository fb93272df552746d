//! The engine with a store, for threads and for asyncio.

use crate::claim;
use crate::columns::must_be_several;
use crate::errors::raise;
use crate::id::{Id, Seconds};
use crate::options;
use crate::runtime::{Answer, Calls, answer};
use crate::verdict;
use hapax_postgres::{PostgresOptions, PostgresStore};
use hapax_redis::{RedisOptions, RedisStore};
use hapax_store::{DynStore, InMemoryStore, StoreError, TieredClaimOptions};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyType};
use std::time::Duration;

type Engine = hapax_store::TieredDedup<DynStore>;

/// Memory in front of a store that processes share: Redis, PostgreSQL, or memory alone.
///
/// >>> import hapax
/// >>> dedup = hapax.TieredDedup.connect("memory:", retention=86400)  # redis://…
/// >>> with dedup.claim("order-17", lease=600) as claim:
/// ...     claim.complete(b"receipt")
/// >>> dedup.claim("order-17", wants_result=True).result
/// b'receipt'
///
/// Options of `connect`: `namespace` (the service's name at the store), `window`, `capacity`,
/// `max_memory`, `retention`, `lease`, `scope`, `timeout`, `retries`, `in_doubt`, `on_store_error`
/// ("fail" or "admit"). Build it after a fork.
#[pyclass(frozen, subclass, module = "hapax")]
pub struct TieredDedup {
    pub engine: Box<Engine>,
    pub calls: Calls,
}

/// The same engine for asyncio: its calls, and those of its claims, are awaited.
///
/// >>> import asyncio, hapax
/// >>> async def main():
/// ...     dedup = await hapax.AsyncTieredDedup.connect("memory:")
/// ...     async with await dedup.claim("order-17"):
/// ...         return (await dedup.check("order-17")).outcome
/// >>> asyncio.run(main())
/// 'in progress'
#[pyclass(frozen, extends = TieredDedup, module = "hapax")]
pub struct AsyncTieredDedup;

async fn open(url: &str, namespace: &str) -> Result<DynStore, StoreError> {
    if url == "memory:" {
        return Ok(DynStore::new(InMemoryStore::new()));
    }
    if url.starts_with("redis") {
        return RedisStore::connect(RedisOptions::single(url, namespace)).await.map(DynStore::new);
    }
    let store = PostgresStore::new(PostgresOptions::parse(url)?, namespace)?;
    store.migrate().await?;
    Ok(DynStore::new(store))
}

fn object(py: Python<'_>, engine: Engine, awaits: bool) -> PyResult<Py<PyAny>> {
    let tiered = TieredDedup { engine: Box::new(engine), calls: Calls::here(awaits) };
    if !awaits {
        return Ok(Py::new(py, tiered)?.into_any());
    }
    Ok(Py::new(py, PyClassInitializer::from(tiered).add_subclass(AsyncTieredDedup))?.into_any())
}

impl TieredDedup {
    /// Asks about one id.
    fn ask<'py, F: Future<Output = Answer> + Send + 'static>(
        &self,
        id: &Bound<'py, PyAny>,
        asked: impl FnOnce(Engine, Vec<u8>) -> F,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.calls.call(id.py(), asked(Engine::clone(&self.engine), Id::of(id)?.as_ref().to_vec()))
    }
}

#[pymethods]
impl TieredDedup {
    /// Connects to a store, and builds an engine in front of it.
    #[classmethod]
    #[pyo3(signature = (url, namespace = "hapax".to_owned(), **options))]
    fn connect<'py>(
        class: &Bound<'py, PyType>,
        url: String,
        namespace: String,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (awaits, builder) = (class.is_subclass_of::<AsyncTieredDedup>()?, options::tiered(options)?);
        Calls::here(awaits).call(class.py(), async move {
            let built = async { builder.over(open(&url, &namespace).await?).build().await };
            answer(built.await, move |py, engine| object(py, engine, awaits))
        })
    }

    /// Returns a handle to the same engine for another scope: the same id there is another id.
    fn with_scope(&self, py: Python<'_>, scope: &str) -> PyResult<Py<PyAny>> {
        object(py, raise(self.engine.with_scope(scope))?, self.calls.awaits)
    }

    /// Checks an id, and marks it on sight. If its worker dies, the message is lost: see `claim`.
    fn check<'py>(&self, id: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.ask(id, |engine, id| async move { answer(engine.check(id).await, verdict::object) })
    }

    /// Checks many ids in few round trips: a verdict, or a StoreError, for each.
    fn check_batch<'py>(&self, py: Python<'py>, ids: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        must_be_several(ids)?;
        let ids = ids.try_iter()?.map(|id| Ok(Id::of(&id?)?.as_ref().to_vec())).collect::<PyResult<Vec<_>>>()?;
        let engine = self.engine.clone();
        self.calls.call(py, async move {
            answer(Ok::<_, StoreError>(engine.check_batch(ids).await), |py, verdicts| {
                let object = |verdict| match raise(verdict) {
                    Ok(verdict) => verdict::object(py, verdict),
                    Err(error) => Ok(error.into_value(py).into_any()),
                };
                let objects = verdicts.into_iter().map(object).collect::<PyResult<Vec<_>>>()?;
                Ok(PyList::new(py, objects)?.into_any().unbind())
            })
        })
    }

    /// Claims an id: no other caller gets it, in any process. `wait` is how long to wait while it
    /// is in progress, `retention` how long it stays done, `wants_result` asks for what it was
    /// completed with.
    #[pyo3(signature = (id, **options))]
    fn claim<'py>(&self, id: &Bound<'py, PyAny>, options: Option<&Bound<'py, PyDict>>) -> PyResult<Bound<'py, PyAny>> {
        let given = (TieredClaimOptions::new(), Duration::ZERO);
        let (options, patience) = options::fold(options, given, |(options, patience), name, value| {
            let secs = || Ok::<_, PyErr>(value.extract::<Seconds>()?.0);
            Ok(Some(match name {
                "lease" => (options.lease(secs()?), patience),
                "fingerprint" => (options.fingerprint(value.cast::<PyBytes>()?.as_bytes()), patience),
                "retention" => (options.retention(secs()?), patience),
                "wants_result" if value.extract()? => (options.wants_result(), patience),
                "wants_result" => (options, patience),
                "wait" => (options, secs()?),
                _ => return Ok(None),
            }))
        })?;
        let calls = self.calls;
        self.ask(id, move |engine, id| async move {
            let attempt = engine.claim_wait_with(id, options, patience).await;
            answer(attempt, move |py, attempt| claim::stored(py, attempt, calls))
        })
    }

    /// Forgets an id, in memory and in the store. Returns True if the store knew it.
    fn forget<'py>(&self, id: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.ask(id, |engine, id| async move { answer(engine.forget(id).await, |py, known| known.into_py_any(py)) })
    }

    /// Has an id that a consumer has put aside handled again. Returns True if it was put aside.
    fn redrive<'py>(&self, id: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.ask(id, |engine, id| async move { answer(engine.redrive(id).await, |py, known| known.into_py_any(py)) })
    }

    /// Waits until everything that was accepted before is durable in the store.
    fn flush<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let engine = self.engine.clone();
        self.calls.call(py, async move { answer(engine.flush().await, |py, ()| Ok(py.None())) })
    }

    /// Shuts the engine down: calls under way are finished, within the deadline.
    fn shutdown<'py>(&self, py: Python<'py>, deadline: Seconds) -> PyResult<Bound<'py, PyAny>> {
        let (engine, deadline) = (self.engine.clone(), deadline.0);
        self.calls.call(py, async move { answer(engine.shutdown(deadline).await, |py, ()| Ok(py.None())) })
    }

    /// Returns the engine's counts and sizes, as a dict.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        options::tiered_stats(py, &py.detach(|| self.engine.stats()))
    }
}
