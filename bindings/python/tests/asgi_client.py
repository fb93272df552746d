"""A client of ASGI applications, without a server. It is gone once it has something of a body."""

import asyncio


async def request(app, method, target, headers, body, **more):
    """Returns the status, the headers and the body of a response."""
    path, _, query = target.partition("?")
    headers = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": query.encode()}
    messages, sent = [{"type": "http.request", "body": body.encode(), "more_body": False}], []
    has_some = asyncio.Event()

    async def receive():
        if messages:
            return messages.pop()
        await has_some.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)
        if message.get("body"):
            has_some.set()

    await app({**scope, "headers": headers, **more}, receive, send)
    headers = {bytes(name).decode(): bytes(value).decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, b"".join(message.get("body", b"") for message in sent[1:])
