//! Calls that wait: of a thread, which lets others run meanwhile, or of asyncio, which gets an
//! awaitable.

use crate::errors::{exception, raise};
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple};
use std::error::Error;
use std::pin::pin;
use std::process;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;
use tokio::runtime::Runtime;

/// The answer to a call, as it becomes Python's.
pub type Answer = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// Returns the answer that a result of the library is.
pub fn answer<T: Send + 'static, E: Error + Send + 'static>(
    result: Result<T, E>,
    then: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
) -> Answer {
    Box::new(move |py| raise(result).and_then(|value| then(py, value)))
}

/// The threads of a process that talk to stores.
struct Threads {
    process: u32,
    runtime: Runtime,
    /// True once the interpreter is about to end.
    is_ending: RwLock<bool>,
}

static MADE: AtomicPtr<Threads> = AtomicPtr::new(null_mut());

/// Returns those of this process, if there are any: a parent's do not survive a fork.
fn made() -> Option<&'static Threads> {
    // SAFETY: what is stored there is never freed. A child leaks what it has of its parent's.
    unsafe { MADE.load(Ordering::Acquire).as_ref() }.filter(|made| made.process == process::id())
}

fn threads() -> &'static Threads {
    loop {
        let before = MADE.load(Ordering::Acquire);
        if let Some(made) = made() {
            return made;
        }
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).thread_name("hapax").enable_all().build();
        let runtime = runtime.expect("the system has two threads for it");
        let made = Box::into_raw(Box::new(Threads { process: process::id(), runtime, is_ending: RwLock::new(false) }));
        if MADE.compare_exchange(before, made, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: nobody else has seen it.
            unsafe { Box::from_raw(made) }.runtime.shutdown_background();
        }
    }
}

pub fn runtime() -> &'static Runtime {
    &threads().runtime
}

/// Calls Python on a thread of the runtime, unless the interpreter is about to end.
pub fn attached<T>(call: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    let is_ending = threads().is_ending.read().unwrap_or_else(PoisonError::into_inner);
    if *is_ending { None } else { Python::try_attach(call) }
}

/// Waits until no thread of the runtime is in Python, and lets none in any more. An interpreter
/// that ends would stop it there, in the middle of our own code.
#[pyfunction]
pub fn end(py: Python<'_>) {
    let end = |threads: &Threads| *threads.is_ending.write().unwrap_or_else(PoisonError::into_inner) = true;
    py.detach(|| made().map(end));
}

/// The way in which an engine's calls wait, and the process that they belong to.
#[derive(Clone, Copy)]
pub struct Calls {
    pub awaits: bool,
    process: u32,
}

impl Calls {
    pub fn here(awaits: bool) -> Self {
        Calls { awaits, process: process::id() }
    }

    pub fn must_be_here(self) -> PyResult<()> {
        if self.process == process::id() {
            return Ok(());
        }
        let text = "expected an engine of this process, got that of process";
        let text = format!("{text} {}, of which this one is a fork; build it after the fork", self.process);
        Err(exception("HapaxError", (text,)))
    }

    pub fn call<'py>(
        self,
        py: Python<'py>,
        work: impl Future<Output = Answer> + Send + 'static,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.must_be_here()?;
        if self.awaits { awaitable(py, work) } else { wait(py, work) }
    }
}

/// Waits for the answer, and looks every now and then whether Ctrl-C was pressed.
fn wait<'py>(py: Python<'py>, work: impl Future<Output = Answer> + Send) -> PyResult<Bound<'py, PyAny>> {
    const GLANCE: Duration = Duration::from_millis(100);
    let mut work = pin!(work);
    loop {
        let done = py.detach(|| runtime().block_on(async { tokio::time::timeout(GLANCE, work.as_mut()).await }));
        match done {
            Ok(answer) => return answer(py).map(|value| value.into_bound(py)),
            Err(_) => py.check_signals()?,
        }
    }
}

/// Returns a future of the running loop. If it is cancelled, the work is dropped.
fn awaitable<'py>(py: Python<'py>, work: impl Future<Output = Answer> + Send + 'static) -> PyResult<Bound<'py, PyAny>> {
    let event_loop = py.import("asyncio")?.call_method0("get_running_loop")?;
    let future = event_loop.call_method0("create_future")?;
    let settle = py.import("hapax._errors")?.getattr("_settle")?.unbind();
    let (owner, settled) = (event_loop.unbind(), future.clone().unbind());
    let task = runtime().spawn(async move {
        let answer = work.await;
        attached(|py| {
            let answer = answer(py);
            let is_error = answer.is_err();
            let value = answer.unwrap_or_else(|error| error.into_value(py).into_any());
            // An error if the loop has ended: nobody waits.
            let _ = owner.call_method1(py, "call_soon_threadsafe", (settle, settled, value, is_error));
        });
    });
    // Of a task that has ended it is nothing.
    let cancel = move |_: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| task.abort();
    future.call_method1("add_done_callback", (PyCFunction::new_closure(py, None, None, cancel)?,))?;
    Ok(future)
}
