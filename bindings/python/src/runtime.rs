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

/// The threads of this process that talk to stores. Those of a parent do not survive a fork, so a
/// child has its own; what it has of its parent's is leaked.
pub fn runtime() -> &'static Runtime {
    static MADE: AtomicPtr<(u32, Runtime)> = AtomicPtr::new(null_mut());
    loop {
        let made = MADE.load(Ordering::Acquire);
        // SAFETY: what is stored there is never freed.
        if let Some((process, runtime)) = unsafe { made.as_ref() }
            && *process == process::id()
        {
            return runtime;
        }
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).thread_name("hapax").enable_all().build();
        let runtime = Box::into_raw(Box::new((process::id(), runtime.expect("the system has two threads for it"))));
        if MADE.compare_exchange(made, runtime, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: nobody else has seen it.
            unsafe { Box::from_raw(runtime) }.1.shutdown_background();
        }
    }
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
        // None if the interpreter is about to end; an error if the loop has ended: nobody waits.
        Python::try_attach(|py| {
            let (value, error) = match answer(py) {
                Ok(value) => (value, py.None()),
                Err(error) => (py.None(), error.into_value(py).into_any()),
            };
            let _ = owner.call_method1(py, "call_soon_threadsafe", (settle, settled, value, error));
        });
    });
    let cancel = move |args: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| {
        if args.get_item(0)?.call_method0("cancelled")?.is_truthy()? {
            task.abort();
        }
        PyResult::Ok(())
    };
    future.call_method1("add_done_callback", (PyCFunction::new_closure(py, None, None, cancel)?,))?;
    Ok(future)
}
