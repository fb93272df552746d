"""The engine with a store: memory, Redis and PostgreSQL, for threads and for asyncio."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from datetime import timedelta

import celery
import celery.signals
import pytest
from celery.contrib.testing.worker import start_worker

import hapax


def test_one_of_all_instances_is_told_fresh(store_url):
    first = hapax.TieredDedup.connect(store_url, "one", retention=3600, lease=30)
    others = [first] if store_url == "memory:" else [hapax.TieredDedup.connect(store_url, "one", retention=3600)]
    engines, ids, wins = [first, *others] * 2, [f"id-{number}" for number in range(200)], []

    def work(engine, in_batches):
        verdicts = engine.check_batch(ids) if in_batches else map(engine.check, ids)
        wins.extend(id for id, verdict in zip(ids, verdicts) if verdict.is_fresh)

    threads = [threading.Thread(target=work, args=(engine, number % 2)) for number, engine in enumerate(engines)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert sorted(wins) == sorted(ids)
    assert not engines[1].check("id-7").is_fresh and engines[1].stats()["decided"]["fresh"] > 0
    assert first.with_scope("other").check("id-7").is_fresh
    assert first.forget("id-7") and not first.forget("id-7") and first.check("id-7").is_fresh
    first.flush(), first.shutdown(5)


def test_claims_words(store_url):
    dedup = hapax.TieredDedup.connect(store_url, "claims", retention=3600, lease=30)
    with dedup.claim(("order", 1), fingerprint=b"10") as claim:
        assert claim.is_verified and claim.token > 0
        assert dedup.claim(("order", 1), fingerprint=b"99").outcome == "mismatch"
        busy = dedup.claim(("order", 1), fingerprint=b"10")
        assert busy.outcome == "in progress" and timedelta(0) < busy.lease_left <= timedelta(seconds=30)
        claim.renew(60)
        assert dedup.claim(("order", 1)).lease_left > timedelta(seconds=31)
        claim.complete(b"paid")
    again = dedup.claim(("order", 1), wants_result=True)
    assert (again.outcome, again.result, again.verdict.is_duplicate) == ("duplicate", b"paid", True)
    with pytest.raises(hapax.Duplicate) as done, dedup.claim(("order", 1), wants_result=True):
        pytest.fail("it is done")
    assert done.value.result == b"paid"
    with pytest.raises(KeyError), dedup.claim("fails"):
        raise KeyError
    dedup.claim("fails").fail(3600)  # later
    assert dedup.claim("fails").outcome == "in progress"
    with pytest.raises(hapax.StoreError):
        dedup.claim("x", lease=0)


def test_a_lost_lease_is_said(redis_url):
    dedup = hapax.TieredDedup.connect(redis_url, "lost")
    claim = dedup.claim("a", lease=0.05)
    deadline = time.monotonic() + 10
    while not (taken := dedup.claim("a")):
        assert time.monotonic() < deadline
    with pytest.raises(hapax.LostLease):
        claim.complete()
    assert taken.token > claim.token
    taken.complete()


def test_asyncio(store_url):
    async def run():
        dedup = await hapax.AsyncTieredDedup.connect(store_url, "aio", retention=3600)
        verdicts = await asyncio.gather(*(dedup.check("same") for _ in range(50)))
        assert sum(verdict.is_fresh for verdict in verdicts) == 1
        assert [verdict.outcome for verdict in await dedup.check_batch(["x", "x"])] == ["fresh", "duplicate"]
        async with await dedup.claim("c") as claim:
            waiting = asyncio.ensure_future(dedup.claim("c", wait=20, wants_result=True))
            gone = asyncio.ensure_future(dedup.claim("c", wait=20))
            await asyncio.sleep(0.01)
            gone.cancel()
            await claim.complete(b"r")
        assert (await waiting).result == b"r"
        async with await dedup.claim("renewed") as claim:
            renewing = asyncio.ensure_future(claim.renew(60))
            await asyncio.sleep(0)
            renewing.cancel()
            await asyncio.sleep(0.05)
            assert (await dedup.claim("renewed")).outcome == "in progress"  # giving up a renewal keeps the claim
        with pytest.raises(asyncio.CancelledError):
            await gone
        with pytest.raises(KeyError):
            async with await dedup.claim("d"):
                raise KeyError
        with pytest.raises(hapax.Duplicate):
            async with await dedup.claim("c"):
                pytest.fail("it is done")
        assert await dedup.claim("d")
        with pytest.raises(hapax.StoreError):
            await dedup.claim("e", lease=0)
        await dedup.flush()
        await dedup.shutdown(5)

    asyncio.run(run())


def test_a_store_that_is_away_is_an_error_or_is_admitted():
    with pytest.raises(hapax.StoreError) as error:
        hapax.TieredDedup.connect("redis://127.0.0.1:1/")
    assert error.value.kind == "unavailable"
    with pytest.raises(hapax.StoreError) as error:
        hapax.TieredDedup.connect("mysql://127.0.0.1/")
    assert error.value.kind == "misconfigured"


def test_a_killed_redis(redis_url_of_its_own):
    url, kill = redis_url_of_its_own
    options = {"timeout": 0.2, "retries": 0, "in_doubt": 3}
    fails = hapax.TieredDedup.connect(url, "k", **options)
    admits = hapax.TieredDedup.connect(url, "k", on_store_error="admit", **options)
    assert fails.check("a").is_fresh
    kill()
    with pytest.raises(hapax.StoreError):
        fails.check("b")
    assert fails.check("a").is_duplicate  # memory knows it
    assert isinstance(fails.check_batch(["c"])[0], hapax.StoreError)
    verdict = admits.check("b")
    assert verdict.is_fresh and not verdict.is_certain


@pytest.fixture
def redis_url_of_its_own(redis_url):
    import shutil
    import subprocess

    from conftest import free_port, until_connected

    port = free_port()
    server = subprocess.Popen([shutil.which("redis-server"), "--port", str(port), "--save", ""], stdout=subprocess.DEVNULL)
    url = f"redis://127.0.0.1:{port}/"
    until_connected(lambda: hapax.TieredDedup.connect(url))
    yield url, lambda: (server.kill(), server.wait())
    server.kill(), server.wait()


def test_a_fork_builds_its_own(redis_url):
    dedup = hapax.TieredDedup.connect(redis_url, "forked")
    assert dedup.check("a").is_fresh
    child = os.fork()
    if child == 0:
        try:
            dedup.check("b")
        except hapax.HapaxError as error:
            fresh = hapax.TieredDedup.connect(redis_url, "forked")
            is_right = "fork" in str(error) and not fresh.check("a").is_fresh and fresh.check("b").is_fresh
            os._exit(0 if is_right else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not dedup.check("b").is_fresh


def test_once_keeps_results(store_url):
    dedup, runs = hapax.TieredDedup.connect(store_url, "once", retention=7 * 86400, lease=600), []

    @hapax.once(dedup, key=lambda order, amount: ("charge", order))
    def charge(order, amount):
        runs.append(order)
        if amount < 0:
            raise ValueError
        return {"order": order, "charged": amount}

    with pytest.raises(ValueError):
        charge("o-1", -1)
    assert charge("o-1", 25) == charge("o-1", 25) == {"order": "o-1", "charged": 25} and runs == ["o-1"] * 2
    claim = dedup.claim(("charge", "o-2"))
    with pytest.raises(hapax.InProgress):
        charge("o-2", 1)
    claim.release()
    assert charge("o-2", 1)["charged"] == 1

    @hapax.once(dedup, key=lambda name: name)
    def unwritable(name):
        runs.append(name)
        return object()

    with pytest.raises(TypeError, match="JSON"):
        unwritable("once")
    with pytest.raises(hapax.Duplicate):  # it is done, and has no result
        unwritable("once")
    assert runs.count("once") == 1

    async def run():
        dedup = await hapax.AsyncTieredDedup.connect(store_url, "once", retention=3600)

        @hapax.once(dedup, key=lambda name: ("greet", name))
        async def greet(name):
            runs.append(name)
            if runs.count(name) == 1:
                raise KeyError
            return name

        with pytest.raises(KeyError):
            await greet("ann")
        assert [await greet("ann"), await greet("ann")] == ["ann"] * 2 and runs.count("ann") == 2
        with pytest.raises(TypeError, match="AsyncTieredDedup"):
            hapax.once(dedup, key=id)(lambda name: name)
        with pytest.raises(TypeError, match="async with"), await dedup.claim("x"):
            pytest.fail("it must be awaited")

    asyncio.run(run())


ENDS = """
import asyncio, hapax

async def main():
    dedup = await hapax.AsyncTieredDedup.connect("memory:")
    async with await dedup.claim("a"):
        pass

asyncio.run(main())
"""


def test_a_process_ends_well_behind_what_it_awaited():
    """A thread of ours that the interpreter stops in the middle of a call would end it by a signal."""
    ends = [subprocess.Popen([sys.executable, "-c", ENDS]) for _ in range(20)]
    assert [end.wait(60) for end in ends] == [0] * 20


def test_celery_tasks_run_once():
    """Processing for ten minutes at most, done for seven days: of a real worker, over its broker in memory."""
    app = celery.Celery("shop", broker="memory://", backend="cache+memory://")
    dedup = hapax.TieredDedup.connect("memory:", retention=7 * 86400)
    runs, has_begun, may_end, countdowns = [], threading.Event(), threading.Event(), []

    @app.task(bind=True)
    @hapax.once(dedup, key=lambda task, payment: payment["id"], lease=600)
    def process(task, payment):
        runs.append(payment["id"])
        has_begun.set()
        assert may_end.wait(30)
        return "paid"

    def is_retried(request, reason, **_):
        countdowns.append(reason.when)
        may_end.set()

    celery.signals.task_retry.connect(is_retried)
    with start_worker(app, pool="threads", concurrency=2, perform_ping_check=False):
        first = process.delay({"id": "p-1"})
        assert has_begun.wait(30)
        process.delay({"id": "p-1"})  # already processing: it comes again when the lease is over
        assert first.get(timeout=30) == "paid" and 590 < countdowns[0] <= 600
        assert process.delay({"id": "p-1"}).get(timeout=30) == "paid"  # already processed
        lost = dedup.claim("p-2", lease=3)  # its worker has died
        assert process.delay({"id": "p-2"}).get(timeout=30) == "paid" and 0 < countdowns[1] <= 3
        assert runs == ["p-1", "p-2"] and lost.token
