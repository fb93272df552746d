"""Docstrings and the guide's page: their examples run."""

import doctest
import json
import re
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest

import hapax
import hapax._answers
import hapax._once
import hapax.asgi

GUIDE = Path(__file__).parents[3] / "docs/guide/6-python.md"


@pytest.mark.parametrize("module", [hapax, hapax._answers, hapax._once, hapax.asgi], ids=lambda module: module.__name__)
def test_docstrings(module):
    assert doctest.testmod(module).failed == 0


def test_docstrings_of_rust():
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner()
    for subject in (hapax.Dedup, hapax.TieredDedup, hapax.AsyncTieredDedup, hapax.ManualClock):
        for test in finder.find(subject, subject.__name__, globs={}):
            runner.run(test)
    assert runner.summarize().failed == 0 and runner.tries > 15


def test_the_guide_in_an_empty_environment(tmp_path, redis_url):
    """As its readers have it: with the wheel, and nothing else."""
    wheel = json.loads(distribution("hapax-dedup").read_text("direct_url.json"))["url"]
    python = tmp_path / "empty/bin/python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "empty"], check=True)
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-index", "--no-compile"]
    subprocess.run([*pip, wheel], check=True)
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.S)
    assert len(blocks) >= 5
    (tmp_path / "guide.py").write_text("\n".join(blocks).replace("redis://127.0.0.1/", redis_url))
    subprocess.run([python, "-I", "guide.py"], cwd=tmp_path, check=True)


def test_stubs_name_what_there_is():
    stubs = Path(hapax.__file__).with_name("__init__.pyi").read_text()
    named = {*re.findall(r"^class ([A-Z]\w+)", stubs, re.M)} - {"AsyncClaim"}
    assert named == {name for name in hapax.__all__ if name[0].isupper()}
    for name in ("Dedup", "TieredDedup"):
        body = re.search(rf"^class {name}:\n(.*?)(?=^\S)", stubs, re.M | re.S)[1]
        methods = {*re.findall(r"def ([a-z]\w+)", body)}
        assert methods == {method for method in dir(getattr(hapax, name)) if not method.startswith("_")}
