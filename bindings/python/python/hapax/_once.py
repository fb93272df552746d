"""Functions and tasks that run once for each key."""

import functools
import inspect
import json

from ._errors import Duplicate, InProgress
from ._hapax import AsyncTieredDedup, TieredDedup


def once(dedup, *, key, lease=None, retention=None, on_duplicate="result"):
    """Makes a function run once for each key, and return its stored result to whoever calls again.

    ``key`` returns a call's id (a str, an int, a tuple …) from the function's arguments. While the function runs, other
    callers get :class:`hapax.InProgress`, which says for how long; if it raises, the id is released, and the next call
    runs. ``lease`` is longer than the work takes ("processing", ten minutes, say), ``retention`` says for how long the
    id is done. Results are stored as JSON by a :class:`hapax.TieredDedup` (of an async function a
    :class:`hapax.AsyncTieredDedup`); with a :class:`hapax.Dedup` whoever calls again gets None.
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

    def known(claim):
        try:
            claim.__enter__()
        except Duplicate as done:
            if on_duplicate == "raise" or (stored and done.result is None):
                raise
            return None if done.result is None else json.loads(done.result)

    def written(result):
        """Returns what is stored of a result, and the error if it cannot be: the work is done all the same."""
        try:
            return (json.dumps(result).encode() if stored else None), None
        except (TypeError, ValueError) as error:
            return None, error

    def decorate(function):
        awaits = inspect.iscoroutinefunction(function)
        if stored and awaits != isinstance(dedup, AsyncTieredDedup):
            raise TypeError("expected an AsyncTieredDedup for an async function, and a TieredDedup for any other")
        is_task = next(iter(inspect.signature(function).parameters), None) in ("self", "task")

        @functools.wraps(function)
        def runs(*args, **kwargs):
            claim = dedup.claim(key(*args, **kwargs), lease=lease, **options)
            if not claim:
                try:
                    return known(claim)
                except InProgress as busy:
                    retry = getattr(args[0], "retry", None) if is_task and args else None
                    if retry is None:
                        raise
                    raise retry(exc=busy, countdown=busy.lease_left.total_seconds())
            with claim:
                result = function(*args, **kwargs)
                text, error = written(result)
                claim.complete(text)
            if error:
                raise error
            return result

        @functools.wraps(function)
        async def awaited(*args, **kwargs):
            claim = dedup.claim(key(*args, **kwargs), lease=lease, **options)
            if not stored:
                if not claim:
                    return known(claim)
                with claim:
                    return await function(*args, **kwargs)
            if not (claim := await claim):
                return known(claim)
            async with claim:
                result = await function(*args, **kwargs)
                text, error = written(result)
                await claim.complete(text)
            if error:
                raise error
            return result

        return awaited if awaits else runs

    return decorate
