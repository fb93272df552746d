"""Verdicts and claims."""

from collections import namedtuple
from collections.abc import Sequence
from contextlib import suppress

from ._errors import Duplicate, HapaxError, InProgress, Mismatch, TooMany

History = namedtuple("History", "horizon ids false_positive_rate unconfirmed")
History.__doc__ = """Ids beyond the window, in a Bloom filter: for how long, how many, at which rate of mistakes, and what
is answered then: "duplicate" or "fresh"."""
LongMemory = namedtuple("LongMemory", "path retention")
LongMemory.__doc__ = "Ids beyond the window, exactly, in a directory: beside a journal."


class Verdict:
    """The answer of a check: ``outcome`` ("fresh", "duplicate", "in progress", "refused (ahead)" …), the ``tier`` that
    decided ("window", "history", "claims", "store", "segments"), and whether it ``is_certain``."""

    __slots__ = ("_text", "outcome", "tier", "is_certain", "is_fresh", "is_duplicate", "is_in_progress", "is_refused")

    def __init__(self, text, outcome, tier, is_certain, is_):
        self._text, self.outcome, self.tier, self.is_certain = text, outcome, tier, is_certain
        self.is_fresh, self.is_duplicate, self.is_in_progress, self.is_refused = is_

    def __bool__(self):
        raise TypeError("a verdict is neither true nor false: ask is_fresh or is_duplicate")

    def __str__(self):
        return self._text

    def __repr__(self):
        return f"<Verdict: {self._text}>"


class Verdicts(Sequence):
    """The verdicts of a batch, in the order of its ids: a sequence, and for NumPy the mask of those that are fresh.

    >>> import hapax
    >>> verdicts = hapax.Dedup().check_batch(["a", "b", "a"])
    >>> verdicts.fresh(), verdicts[2].is_duplicate
    ([True, True, False], True)

    ``numpy.asarray(verdicts)`` is the mask: ``rows[numpy.asarray(dedup.check_batch(rows["id"]))]``.
    """

    __slots__ = ("_codes", "_table", "_mask")

    def __init__(self, codes, table, mask):
        self._codes, self._table, self._mask = codes, table, mask

    def __len__(self):
        return len(self._codes)

    def __getitem__(self, index):
        return self._table[self._codes[index]]

    def fresh(self):
        """Returns a list: True for each id that is fresh."""
        return list(map((False, True).__getitem__, self._mask))

    @property
    def fresh_count(self):
        """The number of ids that are fresh."""
        return self._mask.count(1)

    @property
    def __array_interface__(self):
        return {"shape": (len(self),), "typestr": "|b1", "data": self._mask, "version": 3}

    def __repr__(self):
        return f"<Verdicts: {len(self)} ids, {self.fresh_count} fresh>"


class Claim:
    """An attempt to claim an id: true if the id is the caller's.

    ``with`` it, the claim is completed at the end, or released if an exception is raised. An id that is not the
    caller's raises :class:`hapax.Duplicate`, :class:`hapax.InProgress`, :class:`hapax.Mismatch` or
    :class:`hapax.TooMany` before the block. A claim that is dropped is released.

    >>> import hapax
    >>> dedup = hapax.Dedup()
    >>> claim = dedup.claim("m-1")
    >>> dedup.claim("m-1").outcome
    'in progress'
    >>> claim.complete()
    >>> with dedup.claim("m-1"):
    ...     print("never")
    Traceback (most recent call last):
    hapax._errors.Duplicate: the id is done already
    """

    __slots__ = ("outcome", "_held", "token", "is_verified", "lease_left", "verdict", "result", "_is_open")

    def __init__(self, outcome, held, lease_left, verdict, result):
        self._held, self.token, self.is_verified = held or (None, None, False)
        self.outcome, self._is_open = outcome, held is not None
        self.lease_left, self.verdict, self.result = lease_left, verdict, result

    def __bool__(self):
        return self._held is not None

    def _take(self):
        if not self._is_open:
            raise HapaxError(f"expected a claim that has not ended, got one that is {self.outcome}, or has ended")
        self._is_open = False
        return self._held

    def complete(self, result=None):
        """Records that the work is done: the id is a duplicate from now on. A store keeps ``result`` (bytes)."""
        return self._take().complete(result)

    def release(self):
        """Releases the id, since the work was not done: the next delivery gets it."""
        return self._take().release(None)

    def fail(self, retry_after):
        """Notes that the work failed: until then the id is in progress for everybody."""
        return self._take().release(retry_after)

    def renew(self, lease):
        """Gives the claim another lease, from now on."""
        if not self._is_open:
            self._take()
        return self._held.renew(lease)

    def _enter(self, awaits):
        if not self:
            left = () if self.lease_left is None else (self.lease_left,)
            errors = {"in progress": InProgress, "mismatch": Mismatch, "too many": TooMany}
            raise Duplicate(self.verdict, self.result) if self.verdict is not None else errors[self.outcome](*left)
        if self._held.awaits != awaits:
            raise TypeError("expected `async with` for a claim that is awaited, and `with` for any other")
        return self

    def __enter__(self):
        return self._enter(False)

    def __exit__(self, error, _value, _traceback):
        if not self._is_open:
            return
        if error is None:
            self.complete()
            return
        with suppress(HapaxError):  # the lease ends it, and the error that matters is the block's
            self.release()

    async def __aenter__(self):
        return self._enter(True)

    async def __aexit__(self, error, _value, _traceback):
        if not self._is_open:
            return
        if error is None:
            await self.complete()
            return
        with suppress(HapaxError):
            await self.release()

    def __repr__(self):
        return f"<Claim: {self.outcome}>"
