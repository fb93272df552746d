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

    Options: ``header``, ``methods`` (POST and PATCH), ``on_missing`` ("reject" or "pass"), ``json`` (a JSON body counts
    by its content), ``gone_for``, ``max_body`` (bytes), ``handler_timeout``, ``wait``. The fencing token of a request
    is ``scope["state"]["idempotency_token"]``.

    A handler goes on when its client disconnects, and its response is recorded before the client gets it.
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

        def begin(respond, token):
            task = loop.create_task(self._handle(scope, body, respond, token))
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
        status, headers, body = await self.layer.handle(request, start)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _read(self, receive):
        parts, size, more = [], 0, True
        while more and size <= self.max_body:  # a larger one is refused by its size
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            parts.append(message.get("body", b""))
            size, more = size + len(parts[-1]), message.get("more_body", False)
        return b"".join(parts)

    async def _handle(self, scope, body, respond, token):
        status, headers, parts, messages = 500, [], [], [{"type": "http.request", "body": body}]
        never = asyncio.get_running_loop().create_future()

        async def receive():
            return messages.pop() if messages else await never  # its client does not end it

        async def send(message):
            nonlocal status, headers
            if message["type"] == "http.response.start":
                status, headers = message["status"], message.get("headers", [])
            elif message["type"] == "http.response.body":
                parts.append(message.get("body", b""))

        scope = {**scope, "state": {**scope.get("state", {}), "idempotency_token": token}}
        try:
            await self.app(scope, receive, send)
            respond(None, status, [(bytes(name), bytes(value)) for name, value in headers], b"".join(parts))
        except BaseException as error:
            respond(error)
            if not isinstance(error, Exception):
                raise
