"""Idempotency keys for ASGI, over the records that Rust has."""

import asyncio
import subprocess
from pathlib import Path

import pytest
from asgi_client import request

import hapax
from hapax.asgi import IdempotencyMiddleware

KEY = {"idempotency-key": '"k-1"', "content-type": "application/json"}


class Counting:
    """Counts its runs, and answers with them."""

    def __init__(self, pause=0):
        self.runs, self.pause, self.tokens = 0, pause, []

    async def __call__(self, scope, receive, send):
        self.runs += 1
        self.tokens.append(scope.get("state", {}).get("idempotency_token"))
        body = (await receive())["body"]
        await asyncio.sleep(self.pause)
        if body == b"fails":
            raise KeyError("fails")
        headers = [(b"content-type", b"text/plain"), (b"set-cookie", b"a=1"), (b"location", b"/1")]
        await send({"type": "http.response.start", "status": 201, "headers": headers})
        await send({"type": "http.response.body", "body": b"by python: ", "more_body": True})
        await send({"type": "http.response.body", "body": body})


def serve(app, url="memory:", **options):
    async def run(work):
        dedup = await hapax.AsyncTieredDedup.connect(url, "http", retention=3600, scope="http")
        return await work(IdempotencyMiddleware(app, dedup, **options))

    return lambda work: asyncio.run(run(work))


def test_requests_at_once_run_once():
    app = Counting(pause=0.2)

    async def work(served):
        return await asyncio.gather(*(request(served, "POST", "/c", KEY, "{}") for _ in range(10)))

    answers = serve(app)(work)
    assert sorted(status for status, *_ in answers) == [201, *[409] * 9] and app.runs == 1
    assert all("retry-after" in headers for status, headers, _ in answers if status == 409)
    app = Counting(pause=0.2)
    answers = serve(app, wait=10)(work)
    assert [(status, body) for status, _, body in answers] == [(201, b"by python: {}")] * 10 and app.runs == 1
    assert app.tokens[0] > 0


def test_a_handler_that_fails_is_run_again_and_raises():
    app = Counting()

    async def work(served):
        for _ in range(2):
            with pytest.raises(KeyError):
                await request(served, "POST", "/c", KEY, "fails")

    serve(app)(work)
    assert app.runs == 2


def test_a_client_that_goes_does_not_end_its_request():
    app = Counting(pause=0.2)

    async def work(served):
        gone = asyncio.ensure_future(request(served, "POST", "/c", KEY, "{}"))
        await asyncio.sleep(0.1)
        gone.cancel()
        await asyncio.sleep(0.3)
        return await request(served, "POST", "/c", KEY, "{}")

    status, headers, body = serve(app)(work)
    assert (status, headers["idempotency-replayed"], body, app.runs) == (201, "true", b"by python: {}", 1)


class Events(Counting):
    """Sends an event, waits until its client is gone, and sends another one."""

    def __init__(self, status=200):
        super().__init__()
        self.status, self.saw, self.may_begin = status, [], asyncio.Event()

    async def __call__(self, scope, receive, send):
        self.runs += 1
        await receive()
        await self.may_begin.wait()
        headers = [(b"Content-Type", b"Text/Event-Stream; charset=utf-8"), (b"x-run", b"1")]
        try:
            await send({"type": "http.response.start", "status": self.status, "headers": headers})
        except ConnectionError:
            self.saw.append("nobody")
            raise
        await send({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})
        self.saw.append((await receive())["type"])
        await send({"type": "http.response.body", "body": b"data: 2\n\n"})
        if self.status == 500:
            raise KeyError("after its events")


def test_events_are_sent_at_once_and_recorded_without_them():
    async def run():
        app = Events()
        dedup = await hapax.AsyncTieredDedup.connect("memory:", retention=3600)
        ask = lambda served, key: request(served, "POST", "/c", {**KEY, "idempotency-key": key}, "{}")
        served = IdempotencyMiddleware(app, dedup)
        app.may_begin.set()
        status, headers, body = await ask(served, "listens")
        assert (status, headers["x-run"], body) == (200, "1", b"data: 1\n\ndata: 2\n\n")
        assert (await ask(served, "listens"))[0] == 410 and app.saw == ["http.disconnect"]
        app.may_begin.clear()
        gone = asyncio.ensure_future(ask(served, "goes"))
        while app.runs == 1:
            await asyncio.sleep(0.001)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        app.may_begin.set()
        while (status := (await ask(served, "goes"))[0]) == 409:
            await asyncio.sleep(0.001)
        assert (status, app.saw[1:], app.runs) == (410, ["nobody"], 2)
        app = Events(status=500)
        app.may_begin.set()
        served = IdempotencyMiddleware(app, dedup)
        for _ in range(2):  # it has failed: it is handled again
            with pytest.raises(KeyError, match="after its events"):
                await ask(served, "fails")
        assert app.runs == 2

    asyncio.run(asyncio.wait_for(run(), 30))


def test_options_and_limits():
    for wrong in ({"on_missing": "?"}, {"wait": -1}, {"methods": ["a b"]}):
        with pytest.raises(hapax.OptionError):
            serve(None, **wrong)(None)
    with pytest.raises(TypeError):
        serve(None, nope=1)(None)

    async def work(served):
        too_large = await request(served, "POST", "/c", KEY, "x" * 1001)
        passed = await request(served, "POST", "/c", {}, "{}")
        one = await request(served, "POST", "/c", KEY, '{"a":1,"b":2}')
        two = await request(served, "POST", "/c", KEY, '{ "b": 2, "a": 1 }')
        return [too_large[0], passed[0], one[0], two[1].get("idempotency-replayed")]

    assert serve(Counting(), max_body=1000, on_missing="pass", json=True)(work) == [413, 201, 201, "true"]


@pytest.fixture
def rust(redis_url):
    programs = [*Path(__file__).parents[3].glob("target/python/*/examples/rust_side")]
    if not programs:
        pytest.fail("expected the example rust_side: cargo build --example rust_side")
    program = max(programs, key=lambda path: path.stat().st_mtime)

    def ask(key, body):
        answer = subprocess.run([program, redis_url, key, body], check=True, capture_output=True, text=True).stdout
        return tuple(answer.split("\n")[:3])

    return ask


def test_rust_and_python_replay_each_other(rust, redis_url):
    app = Counting()

    async def work(served):
        by_python = await request(served, "POST", "/c?x=1", {**KEY, "idempotency-key": "p"}, "{}")
        assert by_python[2] == b"by python: {}"
        assert rust("p", "{}") == ("201", "replayed", "by python: {}")
        assert rust("p", "{1}")[0] == "422"
        assert rust("r", "{}") == ("202", "handled", "by rust: {}")
        status, headers, body = await request(served, "POST", "/c?x=1", {**KEY, "idempotency-key": "r"}, "{}")
        assert (status, body) == (202, b"by rust: {}") and headers["idempotency-replayed"] == "true"
        assert (headers["location"], "set-cookie" in headers) == ("/rust", False)
        assert (await request(served, "POST", "/c?x=1", {**KEY, "idempotency-key": "r"}, "{2}"))[0] == 422

    serve(app, redis_url)(work)
    assert app.runs == 1
