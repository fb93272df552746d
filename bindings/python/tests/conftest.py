"""Servers that tests start, on loopback, and end."""

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import settings

import hapax

settings.register_profile("hapax", database=None, deadline=None, print_blob=True, max_examples=30)
settings.load_profile("hapax")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until_connected(connect):
    """Returns what `connect` does, when the server that was just started answers."""
    for _ in range(100):
        try:
            return connect()
        except hapax.StoreError as error:
            last = error
            time.sleep(0.05)
    raise last


@pytest.fixture(scope="session")
def redis_url():
    server = shutil.which("redis-server")
    if not server:
        pytest.skip("redis-server is not installed")
    port = free_port()
    command = [server, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--maxmemory-policy", "noeviction"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    url = f"redis://127.0.0.1:{port}/"
    try:
        until_connected(lambda: hapax.TieredDedup.connect(url))
        yield url
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory):
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        pytest.skip("PostgreSQL is not installed")
    bin, home = found[-1].parent, tmp_path_factory.mktemp("postgres")
    # The server refuses to run as root.
    user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.getuid() == 0 else []
    if user:
        for directory in [home, *list(home.parents)[:-2]]:
            directory.chmod(0o755)
        shutil.chown(home, "postgres", "postgres")
    data, port = home / "data", free_port()
    initdb = [*user, bin / "initdb", "-D", data, "-U", "hapax", "-A", "trust", "--no-sync", "--no-instructions"]
    subprocess.run(initdb, check=True, stdout=subprocess.DEVNULL)
    command = [*user, bin / "postgres", "-D", data, "-p", str(port), "-k", home, "-c", "fsync=off"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    url = f"postgres://hapax@127.0.0.1:{port}/postgres"
    try:
        until_connected(lambda: hapax.TieredDedup.connect(url))
        yield url
    finally:
        process.kill()
        process.wait()


@pytest.fixture(params=["memory", "redis", "postgres"])
def store_url(request):
    return "memory:" if request.param == "memory" else request.getfixturevalue(f"{request.param}_url")
