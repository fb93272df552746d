"""Functions and tasks that run once for each key."""

import functools
import inspect
import json

from ._errors import Duplicate, InProgress
from ._hapax import TieredDedup


def once(dedup, *, key, lease=None, retention=None, on_duplicate="result"):
    """Makes a function run once for each key, and return its stored result to whoever calls again.

    ``key`` returns a call's id (a str, an int, a tuple …) from the function's arguments. While the function runs, other
    callers get :class:`hapax.InProgress`, which says for how long; if it raises, the id is released, and the next call
    runs. ``lease`` is longer than the work takes ("processing", ten minutes, say), ``retention`` says for how long the
    id is done. Results are stored as JSON by a :class:`hapax.TieredDedup`; a :class:`hapax.Dedup` has none.
    ``on_duplicate="raise"`` raises :class:`hapax.Duplicate` instead.

    >>> import hapax
    >>> dedup = hapax.TieredDedup.connect("memory:", retention=7 * 24 * 3600)
    >>> @hapax.once(dedup, key=lambda order, amount: ("charge", order), lease=600)
    ... def charge(order, amount):
    ...     print("charging", amount)
    ...     return {"order": order, "charged": amount}
    >>> charge("o-1", 25)
    charging 25
    {'order': 'o-1', 'charged': 25}
    >>> charge("o-1", 25)  # already processed
    {'order': 'o-1', 'charged': 25}

    Of a Celery task, decorate the function beneath ``@app.task(bind=True)``: a task whose id is being processed is
    retried when its lease is over at the latest.

    >>> @hapax.once(dedup, key=lambda task, payment: payment["id"], lease=600)  # and @app.task(bind=True) above it
    ... def process(task, payment):
    ...     return "paid"
    """
    if on_duplicate not in ("result", "raise"):
        raise ValueError(f'option `on_duplicate`: got {on_duplicate!r}, expected "result" or "raise"')
    stored = isinstance(dedup, TieredDedup)
    options = {"retention": retention, "wants_result": True} if stored else {}
    if retention is not None and not stored:
        raise ValueError("option `retention`: expected none, since an engine in memory remembers for its window")

    def refused(claim):
        try:
            claim.__enter__()
        except Duplicate:
            if on_duplicate == "raise":
                raise
            return None if claim.result is None else json.loads(claim.result)

    def ended(claim, result):
        return claim.complete(json.dumps(result).encode()) if stored else claim.complete()

    def decorate(function):
        takes_task = next(iter(inspect.signature(function).parameters), None) in ("self", "task")

        @functools.wraps(function)
        def runs(*args, **kwargs):
            claim = dedup.claim(key(*args, **kwargs), lease=lease, **options)
            if not claim:
                try:
                    return refused(claim)
                except InProgress as busy:
                    retry = getattr(args[0], "retry", None) if takes_task and args else None
                    if retry is None:
                        raise
                    raise retry(exc=busy, countdown=busy.lease_left.total_seconds())
            try:
                result = function(*args, **kwargs)
            except BaseException:
                claim.release()
                raise
            ended(claim, result)
            return result

        @functools.wraps(function)
        async def awaits(*args, **kwargs):
            claiming = dedup.claim(key(*args, **kwargs), lease=lease, **options)
            claim = await claiming if inspect.isawaitable(claiming) else claiming
            if not claim:
                return refused(claim)
            try:
                result = await function(*args, **kwargs)
            except BaseException:
                await _of(claim.release())
                raise
            await _of(ended(claim, result))
            return result

        return awaits if inspect.iscoroutinefunction(function) else runs

    return decorate


async def _of(call):
    return await call if inspect.isawaitable(call) else call
