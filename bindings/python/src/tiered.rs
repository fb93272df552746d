//! The engine with a store, for threads and for asyncio.

use crate::claim;
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
use pyo3::types::{PyDict, PyList, PyType};
use std::time::Duration;

type Engine = hapax_store::TieredDedup<DynStore>;

#[pyclass(frozen, subclass, module = "hapax")]
pub struct TieredDedup {
    pub engine: Box<Engine>,
    pub calls: Calls,
}

/// The same engine, whose calls are awaited.
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
        py: Python<'py>,
        id: &Bound<'py, PyAny>,
        asked: impl FnOnce(Engine, Vec<u8>) -> F,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.calls.call(py, asked(Engine::clone(&self.engine), Id::of(id)?.as_ref().to_vec()))
    }
}

#[pymethods]
impl TieredDedup {
    #[classmethod]
    #[pyo3(signature = (url, namespace = "hapax".to_owned(), **options))]
    fn connect<'py>(
        class: &Bound<'py, PyType>,
        url: String,
        namespace: String,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (awaits, options) = (class.is_subclass_of::<AsyncTieredDedup>()?, options::tiered(options)?);
        Calls::here(awaits).call(class.py(), async move {
            let built = async {
                let builder = Engine::builder(open(&url, &namespace).await?);
                options.into_iter().fold(builder, |builder, set| set(builder)).build().await
            };
            answer(built.await, move |py, engine| object(py, engine, awaits))
        })
    }

    fn with_scope(&self, py: Python<'_>, scope: &str) -> PyResult<Py<PyAny>> {
        object(py, raise(self.engine.with_scope(scope))?, self.calls.awaits)
    }

    fn check<'py>(&self, py: Python<'py>, id: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.ask(py, id, |engine, id| async move { answer(engine.check(id).await, verdict::object) })
    }

    fn check_batch<'py>(&self, py: Python<'py>, ids: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
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

    #[pyo3(signature = (id, *, lease = None, fingerprint = None, retention = None, wants_result = false, wait = None))]
    #[expect(clippy::too_many_arguments, reason = "Python names them")]
    fn claim<'py>(
        &self,
        py: Python<'py>,
        id: &Bound<'py, PyAny>,
        lease: Option<Seconds>,
        fingerprint: Option<&[u8]>,
        retention: Option<Seconds>,
        wants_result: bool,
        wait: Option<Seconds>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut options = TieredClaimOptions::new();
        if let Some(Seconds(lease)) = lease {
            options = options.lease(lease);
        }
        if let Some(fingerprint) = fingerprint {
            options = options.fingerprint(fingerprint);
        }
        if let Some(Seconds(retention)) = retention {
            options = options.retention(retention);
        }
        if wants_result {
            options = options.wants_result();
        }
        let patience = wait.map_or(Duration::ZERO, |wait| wait.0);
        let calls = self.calls;
        self.ask(py, id, move |engine, id| async move {
            let attempt = engine.claim_wait_with(id, options, patience).await;
            answer(attempt, move |py, attempt| claim::stored(py, attempt, calls))
        })
    }

    fn forget<'py>(&self, py: Python<'py>, id: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.ask(py, id, |engine, id| async move { answer(engine.forget(id).await, |py, known| known.into_py_any(py)) })
    }

    fn redrive<'py>(&self, py: Python<'py>, id: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.ask(
            py,
            id,
            |engine, id| async move { answer(engine.redrive(id).await, |py, known| known.into_py_any(py)) },
        )
    }

    fn flush<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let engine = self.engine.clone();
        self.calls.call(py, async move { answer(engine.flush().await, |py, ()| Ok(py.None())) })
    }

    fn shutdown<'py>(&self, py: Python<'py>, deadline: Seconds) -> PyResult<Bound<'py, PyAny>> {
        let (engine, deadline) = (self.engine.clone(), deadline.0);
        self.calls.call(py, async move { answer(engine.shutdown(deadline).await, |py, ()| Ok(py.None())) })
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        options::tiered_stats(py, &py.detach(|| self.engine.stats()))
    }
}
