"""Deduplication for consumers that get messages more than once: has this id been seen within the window?

>>> import hapax
>>> dedup = hapax.Dedup(window=600, capacity=100_000)
>>> [dedup.check(id).is_fresh for id in ("m-1", "m-2", "m-1")]
[True, True, False]
>>> with dedup.claim("m-3"):  # an exception releases the id: the next delivery is handled
...     print("handled")
handled
>>> dedup.check("m-3").is_duplicate
True
"""

import atexit

from ._answers import Claim, History, LongMemory, Verdict, Verdicts
from ._errors import (
    Duplicate,
    HapaxError,
    InProgress,
    JournalError,
    LostLease,
    Mismatch,
    NotClaimed,
    OptionError,
    StoreError,
    TooMany,
)
from ._hapax import AsyncTieredDedup, Dedup, ManualClock, TieredDedup
from ._hapax import end as _end
from ._once import once

atexit.register(_end)
__all__ = [name for name in dir() if name[0].isupper()] + ["once"]
