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
