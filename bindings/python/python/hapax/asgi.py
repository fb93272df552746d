"""Idempotency keys for ASGI applications (Starlette, FastAPI, Django, Quart): a request is handled once, however often
its client tries again. The records are those of ``hapax-http``: what a Rust server has answered is replayed here, and
the other way round."""

import asyncio

from ._hapax import IdempotencyLayer


class IdempotencyMiddleware:
    """Handles a request with an ``Idempotency-Key`` once, and replays its response.

    ``dedup`` is a :class:`hapax.AsyncTieredDedup` (or a :class:`hapax.TieredDedup`); its retention is the time for
    which keys are remembered. ``owner`` returns, for an ASGI scope, who asks, as the application has verified it: keys
    of two owners never meet. Without it all clients share their keys.

    Options: ``methods`` (POST and PATCH), ``on_missing`` ("reject" or "pass"), ``json`` (a JSON body counts by its
    content), ``max_body`` (bytes), ``handler_timeout``, ``wait``. The fencing token of a request is
    ``scope["state"]["idempotency_token"]``.

    A handler goes on when its client disconnects, and its response is recorded before the client gets it. Events
    (``text/event-stream``) are sent at once, for as long as the client listens, and recorded without the body: a retry
    gets 410.
    """

    def __init__(self, app, dedup, *, owner=None, **options):
        self.app, self.owner, self.tasks = app, owner, set()
        self.methods = [method.upper() for method in options.get("methods", ("POST", "PATCH"))]
        self.max_body = options.get("max_body", 1 << 20)
        self.layer = IdempotencyLayer(dedup, owner is not None, **options)

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http" or scope["method"] not in self.methods:
            return await self.app(scope, receive, send)
        body = await self._read(receive)
        if body is None:
            return  # the client is gone, and nothing has begun
        loop = asyncio.get_running_loop()
        listens, task = loop.create_future(), None  # True once events have begun, False if the client has all it gets

        def begin(respond, token):
            nonlocal task
            task = loop.create_task(self._handle(scope, body, respond, token, (listens, receive, send)))
            self.tasks.add(task)  # a loop alone does not keep its tasks
            task.add_done_callback(self.tasks.discard)

        def start(respond, token):  # on a thread of hapax
            loop.call_soon_threadsafe(begin, respond, token)

        target = scope.get("raw_path", scope["path"].encode()).split(b"?")[0]
        if scope["query_string"]:
            target += b"?" + scope["query_string"]
        owner = self.owner(scope) if self.owner else None
        headers = [(bytes(name), bytes(value)) for name, value in scope["headers"]]
        request = (scope["method"], target, headers, body, owner)
        try:
            status, headers, body = await self.layer.handle(request, start)
            await send({"type": "http.response.start", "status": status, "headers": headers})
            if _are_events(headers):
                listens.set_result(True)
                await task
            else:
                await send({"type": "http.response.body", "body": body})
        finally:
            if not listens.done():
                listens.set_result(False)

    async def _read(self, receive):
        parts, size, more = [], 0, True
        while more and size <= self.max_body:  # a larger one is refused by its size
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            parts.append(message.get("body", b""))
            size, more = size + len(parts[-1]), message.get("more_body", False)
        return b"".join(parts)

    async def _handle(self, scope, body, respond, token, client):
        status, headers, parts, messages = 500, [], [], [{"type": "http.request", "body": body}]
        has_events, (listens, client_receives, client_sends) = False, client

        async def receive():
            if messages:
                return messages.pop()
            if not await asyncio.shield(listens):
                await asyncio.get_running_loop().create_future()  # its client does not end it
            return await client_receives()

        async def send(message):
            nonlocal status, headers, has_events
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [(bytes(name), bytes(value)) for name, value in message.get("headers", [])]
                if _are_events(headers):
                    respond(None, status, headers)
                    if not await asyncio.shield(listens):
                        raise ConnectionAbortedError("the client is gone")
                    has_events = True
            elif has_events:
                await client_sends(message)
            elif message["type"] == "http.response.body":
                parts.append(message.get("body", b""))

        scope = {**scope, "state": {**scope.get("state", {}), "idempotency_token": token}}
        try:
            await self.app(scope, receive, send)
            respond(None, status, headers, b"".join(parts))
        except BaseException as error:
            respond(error)
            if has_events or not isinstance(error, Exception):
                raise


def _are_events(headers):
    """Returns True for server-sent events, which go on for as long as the client listens."""
    kinds = (value for name, value in headers if name.lower() == b"content-type")
    return next(kinds, b"").split(b";")[0].strip().lower() == b"text/event-stream"
