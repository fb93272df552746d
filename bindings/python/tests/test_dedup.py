"""The engine in memory: ids, columns, times, claims, threads, forks, kills."""

import gc
import os
import random
import signal
import subprocess
import sys
import threading
import uuid
from datetime import datetime, timedelta, timezone

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hapax

TEXTS = ["a", "b", "a", "käse"]
COLUMNS = {
    "list": TEXTS,
    "tuple": tuple(TEXTS),
    "numpy text": np.array(TEXTS),
    "numpy bytes": np.array([text.encode() for text in TEXTS]),
    "numpy objects": np.array(TEXTS, dtype=object),
    "pyarrow": pa.array(TEXTS),
    "pyarrow large": pa.array(TEXTS, pa.large_string()),
    "pyarrow view": pa.array(TEXTS, pa.string_view()),
    "pyarrow binary": pa.array([text.encode() for text in TEXTS]),
    "pyarrow chunks": pa.chunked_array([TEXTS[:1], TEXTS[1:]]),
    "pyarrow slice": pa.array(["x", *TEXTS, "y"]).slice(1, 4),
    "pyarrow dictionary": pa.array(TEXTS).dictionary_encode(),
    "pyarrow table": pa.table({"id": TEXTS}),
    "polars": pl.Series(TEXTS),
    "polars categories": pl.Series(TEXTS, dtype=pl.Categorical),
    "polars frame": pl.DataFrame({"id": TEXTS}),
    "duckdb": duckdb.sql(f"SELECT unnest({TEXTS}) AS id"),
    "pandas": pd.Series(TEXTS),
    "pandas objects": pd.Series(TEXTS, dtype=object),
    "pandas categories": pd.Series(TEXTS).astype("category"),
}
INTS = [3, 1, 3, 100]
INT_COLUMNS = {
    **{f"numpy {kind}": np.array(INTS, dtype=kind) for kind in ("i1", "u2", "<i4", "i8", "u8", ">i8")},
    **{f"pyarrow {kind}": pa.array(INTS, kind) for kind in ("int8", "uint16", "int32", "uint64")},
    "numpy strides": np.repeat(np.array(INTS), 3)[::3],
    "numpy backwards": np.array(INTS[::-1])[::-1],
    "numpy unaligned": np.frombuffer(b"x" + np.array(INTS, dtype="<i8").tobytes(), dtype="<i8", offset=1),
    "polars": pl.Series(INTS),
    "duckdb": duckdb.sql(f"SELECT unnest({INTS}) AS id"),
    "pandas": pd.Series(INTS),
    "pandas nullable": pd.Series(INTS, dtype="Int64"),
}


@pytest.mark.parametrize("ids", [*COLUMNS.values(), *INT_COLUMNS.values()], ids=[*COLUMNS, *INT_COLUMNS])
def test_columns_are_the_ids_one_by_one(ids):
    dedup = hapax.Dedup(60, capacity=1000)
    verdicts = dedup.check_batch(ids)
    assert verdicts.fresh() == [True, True, False, True] and verdicts.fresh_count == 3
    assert np.asarray(verdicts).tolist() == verdicts.fresh()
    known = [dedup.contains(id) for id in (TEXTS if dedup.contains("a") else INTS)]
    assert known == ["window"] * 4


def test_large_columns_cross_the_blocks():
    dedup = hapax.Dedup(60)
    ids = np.arange(100_000, dtype=np.int64) // 2
    assert dedup.check_batch(ids).fresh() == [True, False] * 50_000
    assert dedup.check_batch(pa.array([str(id) for id in ids])).fresh_count == 50_000
    assert dedup.check_batch(np.array([2**63, 5, -1 % 2**64], dtype="u8")).fresh() == [True, False, True]
    assert not any(dedup.check(id).is_fresh for id in (2**63, np.int32(5), 2**64 - 1))


WRONG_COLUMNS = [
    np.array([1.5]),
    np.array([True]),
    np.zeros((2, 2), dtype=int),
    np.array(["2026-01-01"], dtype="M8[s]"),
    pa.array([1, None]),
    pa.array([1.5]),
    pl.Series(["a", None]),
    pl.DataFrame({"a": [1], "b": [2]}),
    pa.array(["a", None]).dictionary_encode(),
    "abc",
    b"abc",
    17,
    ["a", 1.5],
]


@pytest.mark.parametrize("ids", WRONG_COLUMNS, ids=[f"{type(ids).__name__} {ids}"[:40] for ids in WRONG_COLUMNS])
def test_what_is_refused_burns_no_id(ids):
    dedup = hapax.Dedup(60, capacity=1000)
    with pytest.raises((TypeError, ValueError)):
        dedup.check_batch(ids)
    assert dedup.stats()["fresh"] == 0


def test_what_is_no_id():
    dedup = hapax.Dedup(60, capacity=1000)
    for wrong in (True, 1.5, None, ["a"], {"a"}, bytearray(b"a"), ("a", ("b",)), ("a", 1.5), np.float64(1), "\ud800"):
        with pytest.raises((TypeError, UnicodeEncodeError)):
            dedup.check(wrong)
    with pytest.raises(OverflowError):
        dedup.check(2**127)
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(dedup.check("a"))


def test_times():
    now = datetime.now(timezone.utc) - timedelta(minutes=10)
    dedup = hapax.Dedup(timedelta(minutes=1))
    assert dedup.check("a", now).is_fresh
    assert dedup.check("a", int(now.timestamp() * 1e9) + 10**9).is_duplicate
    assert dedup.check("a", (now + timedelta(seconds=62)).astimezone(timezone(timedelta(hours=5)))).is_fresh
    assert dedup.check("b", now + timedelta(days=1)).outcome == "refused (ahead)"
    for wrong in (datetime.now(), datetime(1960, 1, 1, tzinfo=timezone.utc), -1, 1.5, "now"):
        with pytest.raises((TypeError, ValueError)):
            dedup.check("c", wrong)
    assert dedup.check("c").is_fresh


def test_options_say_what_they_got():
    for options, text in [
        ({"window": -1}, "option `window`: expected a timedelta or seconds, from 0; got -1"),
        ({"window": float("nan")}, "option `window`: expected"),
        ({"capacity": -5}, "option `capacity`: "),
        ({"history": (1, 2)}, "option `history`: "),
        ({"history": (9, 2, 0.1, "maybe")}, 'got \'maybe\', expected "duplicate" or "fresh"'),
        ({"key": b"short"}, "option `key`: "),
        ({"clock": 5}, "option `clock`: "),
    ]:
        with pytest.raises(hapax.OptionError) as error:
            hapax.Dedup(**options)
        assert text in str(error.value)
    with pytest.raises(TypeError, match="unexpected option 'windw'"):
        hapax.Dedup(windw=5)
    with pytest.raises(hapax.JournalError, match="without a journal"):
        hapax.Dedup().flush()
    with pytest.raises(hapax.HapaxError):
        hapax.Dedup(journal="/proc/none")


def test_claims_end_as_their_blocks_do():
    dedup = hapax.Dedup(60)
    with pytest.raises(KeyError), dedup.claim("a"):
        raise KeyError
    with dedup.claim("a") as claim:
        assert claim.token and dedup.claim("a").lease_left > timedelta(0)
        with pytest.raises(hapax.InProgress) as busy, dedup.claim("a"):
            pytest.fail("another one has it")
        assert timedelta(0) < busy.value.lease_left <= timedelta(seconds=31)
    with pytest.raises(hapax.Duplicate), dedup.claim("a"):
        pytest.fail("it is done")
    with pytest.raises(hapax.HapaxError, match="has ended"):
        claim.complete()
    with dedup.claim("b") as claim:
        claim.fail(3600)
    assert dedup.claim("b").outcome == "in progress"
    assert dedup.claim("c")  # dropped at once
    assert dedup.claim("c")
    with pytest.raises(TypeError, match="only an engine with a store"):
        dedup.claim("d").complete(b"result")


def test_once_runs_once():
    dedup, runs = hapax.Dedup(60), []

    @hapax.once(dedup, key=lambda name, **_: ("greet", name))
    def greet(name, fails=False):
        runs.append(name)
        if fails:
            raise RuntimeError
        return name

    with pytest.raises(RuntimeError):
        greet("ann", fails=True)
    assert [greet("ann"), greet("ann"), greet("bob")] == ["ann", None, "bob"] and runs == ["ann", "ann", "bob"]
    for wrong in ({"retention": 5}, {"on_duplicate": "?"}):
        with pytest.raises(ValueError):
            hapax.once(dedup, key=id, **wrong)


def test_of_many_threads_one_is_told_fresh():
    dedup, ids, wins = hapax.Dedup(60), [f"id-{number}" for number in range(2000)], []
    start = threading.Barrier(8)

    def work(way):
        start.wait()
        if way % 2:
            wins.extend(id for id, fresh in zip(ids, dedup.check_batch(ids).fresh()) if fresh)
        else:
            wins.extend(id for id in ids if dedup.check(id).is_fresh)

    threads = [threading.Thread(target=work, args=(way,)) for way in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert sorted(wins) == sorted(ids)


def test_other_threads_run_during_a_batch():
    dedup, ids, batches, was_let_in = hapax.Dedup(600), np.arange(100_000), [], threading.Event()

    def work():
        while len(batches) < 100 and not was_let_in.is_set():
            batches.append(dedup.check_batch(ids))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # nobody is interrupted: this thread goes on when a batch lets it, or when all are done
    try:
        thread = threading.Thread(target=work)
        thread.start()
        done = len(batches)
        was_let_in.set()
        thread.join()
    finally:
        sys.setswitchinterval(before)
    assert done < 100


def test_a_fork_has_a_copy_and_no_journal(tmp_path):
    dedup = hapax.Dedup(60, journal=tmp_path / "journal")
    dedup.check("a")
    child = os.fork()
    if child == 0:
        try:
            known = dedup.check("a").is_duplicate and dedup.check("b").is_fresh
            dedup.flush()
        except hapax.JournalError as error:
            os._exit(0 if known and "fork" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert dedup.check("b").is_fresh
    dedup.flush()


VICTIM = """
import hapax, sys
dedup = hapax.Dedup(3600, capacity=10_000, journal=sys.argv[1])
for number in range(10**6):
    dedup.check(f"{number}")
    if number % 100 == 99:
        dedup.flush()
        print(number, flush=True)
"""


def test_what_was_flushed_survives_a_kill(tmp_path):
    seed = int(os.environ.get("HAPAX_SEED", random.randrange(2**32)))
    print(f"HAPAX_SEED={seed}")
    for run in range(3):
        journal = tmp_path / f"journal-{run}"
        with subprocess.Popen([sys.executable, "-c", VICTIM, journal], stdout=subprocess.PIPE, text=True) as victim:
            for _ in range(random.Random(seed + run).randrange(1, 40)):
                last = int(victim.stdout.readline())
            victim.send_signal(signal.SIGKILL)
            last = max([last, *map(int, victim.stdout.read().split("\n")[:-1])])
        dedup = hapax.Dedup(3600, capacity=10_000, journal=journal)
        assert dedup.check_batch([f"{number}" for number in range(last + 1)]).fresh_count == 0
        with pytest.raises(hapax.JournalError, match="in use"):
            hapax.Dedup(3600, journal=journal)


def test_a_long_memory_remembers_beyond_the_window(tmp_path):
    clock = hapax.ManualClock()
    clock.advance(1_000_000)
    memory = hapax.LongMemory(tmp_path / "segments", timedelta(days=1))
    dedup = hapax.Dedup(60, capacity=1000, journal=tmp_path / "journal", long_memory=memory, clock=clock)
    assert dedup.check("a").is_fresh
    clock.advance(7200)
    dedup.check("b"), dedup.flush()
    assert dedup.contains("a") == "segments" and dedup.check("a").tier == "segments"


IDS = st.one_of(st.text(max_size=2), st.binary(max_size=2), st.integers(-2, 2), st.integers(0, 2).map(lambda n: uuid.UUID(int=n)))


@given(st.lists(st.tuples(st.integers(0, 50), st.lists(st.one_of(IDS, st.tuples(IDS, IDS)), max_size=6)), max_size=30))
def test_against_a_dict_with_times(calls):
    """A window of 100 s: an id is a duplicate for 100 s, and forgotten after two ticks more, which are 1 s each."""
    clock, seen, now = hapax.ManualClock(), {}, 0
    clock.advance(1_000_000)
    dedup = hapax.Dedup(100, capacity=1000, clock=clock)
    plain = {str: str.encode, bytes: bytes, int: lambda id: id.to_bytes(8, "little", signed=True), uuid.UUID: lambda id: id.bytes}
    form = lambda id: ("key", *map(part, id)) if isinstance(id, tuple) else plain[type(id)](id)
    part = lambda id: id if isinstance(id, int) else plain[type(id)](id)
    for later, ids in calls:
        clock.advance(later)
        now += later
        for id, verdict in zip(ids, dedup.check_batch(ids)):
            age = now - seen.get(form(id), -1000)
            assert verdict.is_duplicate if age < 100 else verdict.is_fresh if age > 102 else True
            if verdict.is_fresh:
                seen[form(id)] = now


def test_nothing_leaks():
    dedup = hapax.Dedup(60, capacity=10_000)
    frame, ids = pl.Series(["a", "b"] * 500), np.arange(1000)

    def use():
        for _ in range(60):
            dedup.check_batch(frame), dedup.check_batch(ids), np.asarray(dedup.check_batch(["x", ("y", 1), b"z"]))
            with dedup.claim("c"):
                pass
            dedup.forget("c"), dedup.stats(), dedup.contains("q"), dedup.with_scope("s").check("a")
            for wrong in (1.5, ("a", 1.5)):
                with pytest.raises(TypeError):
                    dedup.check(wrong)

    def resident():
        gc.collect()
        return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    use()
    before, objects = resident(), len(gc.get_objects())
    use(), use()
    assert resident() - before < 2 << 20
    assert len(gc.get_objects()) - objects < 50
