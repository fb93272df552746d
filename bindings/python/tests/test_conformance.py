"""The cases of docs/conformance.json, which Rust runs, too."""

import asyncio
import json
import uuid
from pathlib import Path

import pytest
from asgi_client import request

import hapax
from hapax.asgi import IdempotencyMiddleware

CASES = json.loads((Path(__file__).parents[3] / "docs/conformance.json").read_text())


def id_of(case):
    if not isinstance(case, dict):
        return case
    if "hex" in case:
        return bytes.fromhex(case["hex"])
    return tuple(case["key"]) if "key" in case else uuid.UUID(case["uuid"])


def engine(options, **more):
    named = {"window_s": "window", "lease_s": "lease", "history": "history"}
    options = {named.get(name, name): value for name, value in options.items()}
    if history := options.get("history"):
        options["history"] = hapax.History(history["horizon_s"], history["ids"], history["rate"], history["unconfirmed"])
    return hapax.Dedup(**{"capacity": 1000, **options}, **more)


@pytest.mark.parametrize("case", CASES["ids"], ids=lambda case: str(case["id"]))
def test_ids_are_these_bytes(case):
    dedup = hapax.Dedup(60)
    assert dedup.check(id_of(case["id"])).is_fresh
    assert dedup.check(bytes.fromhex(case["hex"])).is_duplicate
    assert dedup.check_batch([id_of(case["id"])]).fresh() == [False]


@pytest.mark.parametrize("case", CASES["refused"], ids=lambda case: case["option"])
def test_options_are_refused_by_name(case):
    with pytest.raises(hapax.OptionError, match=f"`{case['option']}`: got "):
        engine(case["options"])


def took(dedup, claims, step):
    """Returns what a step answers."""
    at = {"at": round(step["at_s"] * 10**9)} if "at_s" in step else {}
    if "check" in step:
        return dedup.check(id_of(step["check"]), **at).outcome
    if "batch" in step:
        return [verdict.outcome for verdict in dedup.check_batch([id_of(id) for id in step["batch"]], **at)]
    if "contains" in step:
        return dedup.contains(id_of(step["contains"]))
    if "forget" in step:
        return dedup.forget(id_of(step["forget"]))
    if "claim" in step:
        fingerprint = step["fingerprint"].encode() if "fingerprint" in step else None
        claim = dedup.claim(id_of(step["claim"]), fingerprint=fingerprint)
        claims[step.get("as")] = claim
        return claim.outcome
    (how,) = {"complete", "release", "fail", "renew"} & step.keys()
    try:
        getattr(claims[step[how]], how)(*([step["for_s"]] if "for_s" in step else []))
    except hapax.LostLease:
        return "lost"
    return "ended"


@pytest.mark.parametrize("case", CASES["engine"], ids=lambda case: case["name"])
def test_engine(case):
    clock, claims = hapax.ManualClock(), {}
    clock.advance(1_000_000)
    dedup = engine(case["options"], clock=clock)
    for number, step in enumerate(case["steps"]):
        if "advance_s" in step:
            clock.advance(step["advance_s"])
        else:
            assert took(dedup, claims, step) == step["is"], (number, step)


@pytest.mark.parametrize("case", CASES["http"], ids=lambda case: case["name"])
def test_http(case):
    runs = 0

    async def app(scope, receive, send):
        nonlocal runs
        runs += 1
        status = int(dict(scope["headers"]).get(b"x-status", b"201"))
        body = (await receive())["body"]
        headers = [(b"x-run", str(runs).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": f"run {runs}: ".encode() + body})

    async def run():
        dedup = await hapax.AsyncTieredDedup.connect("memory:")
        has_owners = "owner" in case["requests"][0]
        served = IdempotencyMiddleware(app, dedup, owner=(lambda scope: scope["owner"]) if has_owners else None)
        for step in case["requests"]:
            headers = {"idempotency-key": step["key"]} if "key" in step else {}
            headers |= {"x-status": str(step["answer"])} if "answer" in step else {}
            target, method = step.get("target", "/charges"), step.get("method", "POST")
            status, headers, body = await request(served, method, target, headers, step["body"], owner=step.get("owner"))
            assert (status, headers.get("idempotency-replayed") == "true") == (step["status"], step.get("replayed", False))
            if "run" in step:
                assert (headers["x-run"], body) == (str(step["run"]), f"run {step['run']}: {step['body']}".encode())
            else:
                assert headers["content-type"] == "application/problem+json"

    asyncio.run(run())
