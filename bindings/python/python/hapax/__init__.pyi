from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from os import PathLike
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, Union
from uuid import UUID

from typing_extensions import Self

Part = Union[str, bytes, int, UUID, None]
Id = Union[str, bytes, int, UUID, tuple[Part, ...]]
Seconds = Union[float, timedelta]
Time = Union[datetime, int]
Path = Union[str, PathLike[str]]
F = TypeVar("F", bound=Callable[..., Any])

class _ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object = ...) -> object: ...

class _ArrowArray(Protocol):
    def __arrow_c_array__(self, requested_schema: object = ...) -> tuple[object, object]: ...

class _NumpyArray(Protocol):
    @property
    def __array_interface__(self) -> dict[str, Any]: ...

Ids = Union[Iterable[Id], _ArrowStream, _ArrowArray, _NumpyArray]

class HapaxError(Exception): ...
class OptionError(HapaxError, ValueError): ...
class JournalError(HapaxError): ...
class LostLease(HapaxError): ...

class StoreError(HapaxError):
    kind: str

class NotClaimed(HapaxError): ...

class Duplicate(NotClaimed):
    verdict: Verdict | None
    result: bytes | None

class InProgress(NotClaimed):
    lease_left: timedelta

class Mismatch(NotClaimed): ...
class TooMany(NotClaimed): ...

class Verdict:
    outcome: str
    tier: str
    is_fresh: bool
    is_duplicate: bool
    is_in_progress: bool
    is_refused: bool
    is_certain: bool

class Verdicts(Sequence[Verdict]):
    def fresh(self) -> list[bool]: ...
    @property
    def fresh_count(self) -> int: ...
    @property
    def __array_interface__(self) -> dict[str, Any]: ...

class History(NamedTuple):
    horizon: Seconds
    ids: int
    false_positive_rate: float
    unconfirmed: Literal["duplicate", "fresh"]

class LongMemory(NamedTuple):
    path: Path
    retention: Seconds

class ManualClock:
    def advance(self, by: Seconds) -> None: ...

class _Claim:
    outcome: Literal["claimed", "in progress", "duplicate", "mismatch", "too many"]
    token: int | None
    is_verified: bool
    lease_left: timedelta | None
    verdict: Verdict | None
    result: bytes | None
    def __bool__(self) -> bool: ...

class Claim(_Claim):
    def complete(self, result: bytes | None = None) -> None: ...
    def release(self) -> None: ...
    def fail(self, retry_after: Seconds) -> None: ...
    def renew(self, lease: Seconds) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *raised: object) -> None: ...

class AsyncClaim(_Claim):
    async def complete(self, result: bytes | None = None) -> None: ...
    async def release(self) -> None: ...
    async def fail(self, retry_after: Seconds) -> None: ...
    async def renew(self, lease: Seconds) -> None: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *raised: object) -> None: ...

class Dedup:
    def __init__(
        self,
        window: Seconds = ...,
        *,
        capacity: int = ...,
        max_memory: int = ...,
        history: History = ...,
        journal: Path = ...,
        long_memory: LongMemory = ...,
        lease: Seconds = 30,
        scope: str = ...,
        refresh_on_duplicate: bool = False,
        key: bytes = ...,
        clock: ManualClock = ...,
    ) -> None: ...
    def with_scope(self, scope: str) -> Dedup: ...
    def check(self, id: Id, at: Time | None = None) -> Verdict: ...
    def check_batch(self, ids: Ids, at: Time | None = None) -> Verdicts: ...
    def claim(self, id: Id, *, lease: Seconds | None = None, fingerprint: bytes | None = None) -> Claim: ...
    def contains(self, id: Id) -> str | None: ...
    def forget(self, id: Id) -> Literal["entirely", "except by history", "in progress"]: ...
    def clear(self) -> None: ...
    def flush(self) -> None: ...
    def stats(self) -> dict[str, Any]: ...

class TieredDedup:
    @classmethod
    def connect(
        cls,
        url: str,
        namespace: str = "hapax",
        *,
        window: Seconds = ...,
        capacity: int = ...,
        max_memory: int = ...,
        retention: Seconds = ...,
        lease: Seconds = 30,
        scope: str = ...,
        timeout: Seconds = ...,
        retries: int = ...,
        in_doubt: Seconds = ...,
        on_store_error: Literal["fail", "admit"] = "fail",
    ) -> Self: ...
    def with_scope(self, scope: str) -> TieredDedup: ...
    def check(self, id: Id) -> Verdict: ...
    def check_batch(self, ids: Iterable[Id]) -> list[Verdict | StoreError]: ...
    def claim(
        self,
        id: Id,
        *,
        lease: Seconds | None = None,
        fingerprint: bytes | None = None,
        retention: Seconds | None = None,
        wants_result: bool = False,
        wait: Seconds | None = None,
    ) -> Claim: ...
    def forget(self, id: Id) -> bool: ...
    def redrive(self, id: Id) -> bool: ...
    def flush(self) -> None: ...
    def shutdown(self, deadline: Seconds) -> None: ...
    def stats(self) -> dict[str, Any]: ...

class AsyncTieredDedup:
    @classmethod
    async def connect(cls, url: str, namespace: str = "hapax", **options: Any) -> Self: ...
    def with_scope(self, scope: str) -> AsyncTieredDedup: ...
    async def check(self, id: Id) -> Verdict: ...
    async def check_batch(self, ids: Iterable[Id]) -> list[Verdict | StoreError]: ...
    async def claim(
        self,
        id: Id,
        *,
        lease: Seconds | None = None,
        fingerprint: bytes | None = None,
        retention: Seconds | None = None,
        wants_result: bool = False,
        wait: Seconds | None = None,
    ) -> AsyncClaim: ...
    async def forget(self, id: Id) -> bool: ...
    async def redrive(self, id: Id) -> bool: ...
    async def flush(self) -> None: ...
    async def shutdown(self, deadline: Seconds) -> None: ...
    def stats(self) -> dict[str, Any]: ...

def once(
    dedup: Dedup | TieredDedup | AsyncTieredDedup,
    *,
    key: Callable[..., Id],
    lease: Seconds | None = None,
    retention: Seconds | None = None,
    on_duplicate: Literal["result", "raise"] = "result",
) -> Callable[[F], F]: ...
