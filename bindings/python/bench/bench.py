"""Measures ns an id beside what Python programs use instead, and memory. Run it with the wheel for use installed:

    pip install target/python/wheels/*.whl numpy pandas polars pyarrow cachetools rbloom diskcache redis
    python bindings/python/bench/bench.py [IDS]

Each row is the best of five runs (which others disturbed least), and the worst: of processor time, but for
servers and disks, of time. Half of the ids are new, half come again. A package that is not installed is left out.
"""

import functools
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
import time

import hapax

IDS = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
WINDOW = 600
WALL = time.perf_counter_ns  # for what waits


def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def row(name, prepare, work, ids, runs=5, clock=time.process_time_ns):
    """Prints ns an id, best and worst, and bytes an id."""
    times, memory = [], 0
    for _ in range(runs):
        before = resident()
        subject = prepare()
        began = clock()
        fresh = work(subject, ids)
        times.append((clock() - began) / len(ids))
        memory = max(memory, resident() - before)
        assert fresh is None or abs(fresh - IDS // 2) <= IDS // 50, (name, fresh)
        del subject
    print(f"| {name} | {min(times):,.0f} | {max(times):,.0f} | {memory / (IDS // 2):,.0f} |", flush=True)


def optional(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        print(f"(no {name})")


def one_by_one(texts):
    def checks(dedup, ids):
        check, fresh = dedup.check, 0
        for id in ids:
            fresh += check(id).is_fresh
        return fresh

    def calls(dedup, ids):  # the same call of the same kind, with nothing to decide
        with_at, fresh = hapax.ManualClock().advance, 0
        for id in ids:
            with_at(0)
            fresh += 1

    def dict_with_times(seen, ids):
        now, fresh = time.monotonic, 0
        for id in ids:
            at = now()
            if at - seen.get(id, -WINDOW) >= WINDOW:
                seen[id] = at
                fresh += 1
        return fresh

    row("hapax `check`", lambda: hapax.Dedup(WINDOW, capacity=IDS), checks, texts)
    row("the call itself", lambda: None, calls, texts)
    row("dict with times (never cleaned)", dict, dict_with_times, texts)
    if cachetools := optional("cachetools"):

        def ttl(cache, ids):
            fresh = 0
            for id in ids:
                if id not in cache:
                    cache[id] = None
                    fresh += 1
            return fresh

        row("cachetools `TTLCache`", lambda: cachetools.TTLCache(IDS, WINDOW), ttl, texts)

    def lru(size, ids):
        seen = functools.lru_cache(maxsize=size)(lambda id: None)
        for id in ids:
            seen(id)
        return seen.cache_info().misses

    row("`functools.lru_cache` (no times)", lambda: IDS, lru, texts)
    if rbloom := optional("rbloom"):

        def bloom(filter, ids):
            fresh = 0
            for id in ids:
                if id not in filter:
                    filter.add(id)
                    fresh += 1
            return fresh

        row("rbloom 1e-4 (no times, a guess)", lambda: rbloom.Bloom(IDS, 1e-4), bloom, texts)
    if diskcache := optional("diskcache"):
        with tempfile.TemporaryDirectory() as directory:
            few, caches = texts[: IDS // 50], iter(range(100))
            cache = lambda: diskcache.Cache(f"{directory}/{next(caches)}")
            row("diskcache `add`", cache, lambda cache, ids: [cache.add(id, 1, WINDOW) for id in ids] and None, few, 3, WALL)
            journal = lambda: hapax.Dedup(WINDOW, capacity=IDS, journal=f"{directory}/j{next(caches)}")
            row("hapax `check` with a journal", journal, checks, texts)
    if (redis := optional("redis")) and shutil.which("redis-server"):
        in_redis(redis, texts)


def in_redis(redis, texts):
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/s"
        command = ["redis-server", "--port", "0", "--unixsocket", path, "--save", ""]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            while not os.path.exists(path):
                time.sleep(0.01)
            client, few = redis.Redis(unix_socket_path=path), texts[: IDS // 10]

            def pipeline(client, ids):
                for start in range(0, len(ids), 1000):
                    batch = client.pipeline(transaction=False)
                    for id in ids[start : start + 1000]:
                        batch.set(id, 1, nx=True, ex=WINDOW)
                    batch.execute()

            flushed = lambda: client.flushall() and client
            row("redis-py, pipelines of 1,000", flushed, pipeline, few, 3, WALL)
            connect = lambda: client.flushall() and hapax.TieredDedup.connect(f"redis+unix://{path}", retention=WINDOW)
            row("hapax `TieredDedup.check_batch` of 1,000, Redis", connect, batches_of(1000), few, 3, WALL)
        finally:
            server.kill()
            server.wait()


def batches_of(size):
    def work(dedup, ids):
        for start in range(0, len(ids), size):
            dedup.check_batch(ids[start : start + size])

    return work


def by_columns(texts, numbers):
    engine = lambda: hapax.Dedup(WINDOW, capacity=IDS)
    batch = lambda dedup, ids: dedup.check_batch(ids).fresh_count
    row("hapax `check_batch`, lists of 1,000 str", engine, batches_of(1000), texts)
    row("hapax `check_batch`, a list of str", engine, batch, texts)
    if numpy := optional("numpy"):
        ints = numpy.array(numbers)
        row("hapax `check_batch`, NumPy int64", engine, batch, ints)
        row("numpy `unique` (no times)", lambda: None, lambda _, ids: len(numpy.unique(ids)), ints)
    if pyarrow := optional("pyarrow"):
        row("hapax `check_batch`, Arrow text", engine, batch, pyarrow.array(texts))
    if polars := optional("polars"):
        row("hapax `check_batch`, Polars text", engine, batch, polars.Series(texts))
        row("Polars `unique` of text (no times)", lambda: None, lambda _, ids: len(ids.unique()), polars.Series(texts))
        row("Polars `unique` of int64 (no times)", lambda: None, lambda _, ids: len(ids.unique()), polars.Series(numbers))
    if pandas := optional("pandas"):
        row("hapax `check_batch`, pandas text", engine, batch, pandas.Series(texts))
        dropped = lambda _, ids: len(ids.drop_duplicates())
        row("pandas `drop_duplicates` of text (no times)", lambda: None, dropped, pandas.Series(texts))
        row("pandas `drop_duplicates` of int64 (no times)", lambda: None, dropped, pandas.Series(numbers))


if __name__ == "__main__":
    # Each id comes twice, the second time half of the ids later. In an order that no cache foresees.
    half = [n * 2_654_435_761 % 2**32 for n in range(IDS // 2)]
    numbers = half + half
    texts = [f"order-{n:010}" for n in numbers]
    print(f"| {IDS:,} ids, half of them new | ns an id | at worst | bytes an id |\n|---|---|---|---|")
    one_by_one(texts)
    by_columns(texts, numbers)
