//! Verdicts as Python's objects.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict};

/// Returns a verdict as Python's object: there is one of each.
pub fn object(py: Python<'_>, verdict: hapax::Verdict) -> PyResult<Py<PyAny>> {
    static MADE: [PyOnceLock<Py<PyAny>>; 256] = [const { PyOnceLock::new() }; 256];
    let make = || {
        let is = [verdict.is_fresh(), verdict.is_duplicate(), verdict.is_in_progress(), verdict.is_refused()];
        let (outcome, tier) = (verdict.outcome().to_string(), verdict.tier().to_string());
        let class = py.import("hapax._answers")?.getattr("Verdict")?;
        Ok::<_, PyErr>(class.call1((verdict.to_string(), outcome, tier, verdict.is_certain(), is))?.unbind())
    };
    MADE[verdict.index()].get_or_try_init(py, make).map(|object| object.clone_ref(py))
}

/// Returns the verdicts of a batch: a byte for each, the objects that bytes stand for, and a mask.
pub fn objects<'py>(py: Python<'py>, verdicts: &[hapax::Verdict]) -> PyResult<Bound<'py, PyAny>> {
    let codes: Vec<u8> = verdicts.iter().map(|verdict| verdict.index() as u8).collect();
    let mask: Vec<u8> = verdicts.iter().map(|verdict| verdict.is_fresh().into()).collect();
    let (table, mut seen) = (PyDict::new(py), [None; 256]);
    verdicts.iter().for_each(|verdict| seen[verdict.index()] = Some(*verdict));
    for verdict in seen.into_iter().flatten() {
        table.set_item(verdict.index(), object(py, verdict)?)?;
    }
    let answers = py.import("hapax._answers")?;
    answers.call_method1("Verdicts", (PyBytes::new(py, &codes), table, PyBytes::new(py, &mask)))
}
