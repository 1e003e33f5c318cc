"""Steps of a notebook: `%%loam step load -o raw,rates` and `@loam.step`. A retry of the run does not do them again.

What a step gave is recorded with the run, under its name and a hash of its code and inputs. A retry restores it if both
are unchanged; otherwise the step runs. Outside a run nothing is recorded, and every step simply runs. Values are
pickled by this run and read back by its own retries only.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import functools
import hashlib
import inspect
import os
import pickle
import sys
import textwrap
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, NoReturn

from IPython.core.error import UsageError

from loam_lab.core import check
from loam_lab.errors import Invalid, LoamError

STEP = "application/vnd.loam.step.v1+json"
MOST_BYTES = 48 * 1024 * 1024
_FRAMES = "pyspark.sql"


class Recorder:
    """The steps of one run, as its kernel sees them."""

    def __init__(self, jobs: Any, job_id: str, epoch: int) -> None:
        from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
        from loam_lab.rpc.loam.jobs.v1 import service_pb as api

        self._api, self._jobs = api, jobs
        self._token = pb.LeaseToken(job_id=job_id, epoch=epoch)

    def find(self, key: str, input_hash: str) -> bytes | None:
        """What was recorded for this code and these inputs."""
        found = self._jobs.find_step(self._api.FindStepRequest(token=self._token, key=key, input_hash=input_hash))
        if not found.found or found.blob is None:
            return None
        request = self._api.GetBlobRequest(job_id=self._token.job_id, sha256=found.blob.sha256)
        return bytes(self._jobs.get_blob(request).content)

    def record(self, key: str, input_hash: str, content: bytes) -> None:
        """Keep what a step gave."""
        kept = self._jobs.put_blob(self._api.PutBlobRequest(token=self._token, content=content))
        self._jobs.record_step(
            self._api.RecordStepRequest(token=self._token, key=key, input_hash=input_hash, blob=kept.blob)
        )


@functools.cache
def recorder() -> Recorder | None:
    """The recorder of the run that this kernel belongs to; None outside a run."""
    job_id, epoch = os.environ.get("LOAM_RUN_ID", ""), os.environ.get("LOAM_RUN_EPOCH", "")
    if not job_id or not epoch.isdecimal():
        return None
    from loam_lab.connect import connect

    return Recorder(connect(name=f"steps-{os.getpid()}", start=False), job_id, int(epoch))


def run_cell(shell: Any, line: str, cell: str) -> None:
    """`%%loam step NAME -o a,b`: run the cell, or restore what it gave before.

    Raises:
        UsageError: the line is wrong, or the cell does not make a name that it promises.
    """
    name, outputs = _parsed(line)
    code = shell.transform_cell(cell)
    space = shell.user_ns

    def compute() -> dict[str, Any]:
        exec(compile(code, f"<step {name}>", "exec"), space)  # noqa: S102 - the cell is the user's own
        missing = [output for output in outputs if output not in space]
        if missing:
            raise UsageError(f"%%loam step {name}: the cell made no {', '.join(missing)}, which -o names")
        return {output: space[output] for output in outputs}

    inputs = {read: space[read] for read in _names_read(code) if read in space and read not in outputs}
    space.update(once(name, _hash(code, inputs), compute))


def step(function: Callable[..., Any] | None = None, *, name: str = "") -> Any:
    """`@loam.step`: a call with the same arguments is not done again by a retry of the run."""
    if function is None:
        return functools.partial(step, name=name)
    called = name or function.__name__
    try:
        code = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        code = repr(function.__code__.co_code)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return once(called, _hash(code, {"args": args, "kwargs": kwargs}), lambda: function(*args, **kwargs))

    return call


def once(name: str, input_hash: str | None, compute: Callable[[], Any]) -> Any:
    """What `compute` gives, from the record where there is one. Each input of a name has a record of its own."""
    keeper = recorder()
    if keeper is None or input_hash is None:
        if keeper is not None:
            _show(name, "ran; its inputs have no stable form, so a retry runs it again", replayed=False)
        return compute()
    key = f"{name}/{input_hash[:16]}"
    found = keeper.find(key, input_hash)
    if found is not None:
        value = pickle.loads(found)  # noqa: S301 - written by an earlier attempt of this very run
        _show(name, "restored from the record, not run again", replayed=True)
        return value
    value = compute()
    try:
        keeper.record(key, input_hash, _pickled(name, value))
    except (LoamError, Unkept) as error:
        _show(name, f"ran, but its result is not kept: {error}", replayed=False)
    return value


class Unkept(Exception):
    """A result that cannot be kept; the message says why."""


def _pickled(name: str, value: Any) -> bytes:
    for inner in value.values() if isinstance(value, dict) else [value]:
        if type(inner).__module__.startswith(_FRAMES):
            raise Unkept(f"{name!r} gives a Spark DataFrame, which lives in its session; write a table instead")
    try:
        content = _pickler().dumps(value)
    except Exception as error:
        raise Unkept(f"it cannot be pickled: {error}") from None
    if len(content) > MOST_BYTES:
        raise Unkept(f"it has {len(content):,} bytes; at most {MOST_BYTES:,} are kept. Write a table instead")
    return bytes(content)


def _pickler() -> Any:
    """Cloudpickle, where it is, for what was defined in the notebook."""
    for module in ("cloudpickle", "pyspark.cloudpickle"):
        try:
            return __import__(module, fromlist=["dumps"])
        except ImportError:
            continue
    return pickle


def _hash(code: str, inputs: Mapping[str, Any]) -> str | None:
    """Of code and inputs; None where an input has no form that is the same in another process."""
    digest = hashlib.sha256(f"{sys.version_info[:2]}\0{code}".encode())
    for name in sorted(inputs):
        form = _form(inputs[name])
        if form is None:
            return None
        digest.update(f"\0{name}\0".encode() + form)
    return digest.hexdigest()


def _form(value: Any) -> bytes | None:
    if isinstance(value, ModuleType):
        return f"module {value.__name__}".encode()
    if inspect.isfunction(value) or inspect.isclass(value):
        try:
            return inspect.getsource(value).encode()
        except (OSError, TypeError):
            return f"{value.__module__}.{value.__qualname__}".encode()
    if isinstance(value, set | frozenset):
        forms = [_form(inner) for inner in value]
        return None if None in forms else b"set" + b"\0".join(sorted(form for form in forms if form is not None))
    if type(value).__module__.startswith(_FRAMES):
        return None
    try:
        return pickle.dumps(value, protocol=5)
    except Exception:
        return None


def _names_read(code: str) -> list[str]:
    """Names of the notebook that the code reads."""
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return []
    read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return sorted(name for name in read if not hasattr(builtins, name) and name != "get_ipython")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"%%loam step: {message}. Write: %%loam step NAME -o name,other")


def _parsed(line: str) -> tuple[str, list[str]]:
    parser = _Parser(prog="%%loam step", add_help=False, allow_abbrev=False)
    parser.add_argument("name")
    parser.add_argument("-o", "--out", default="")
    found = parser.parse_args(line.split())
    try:
        check.word(found.name, field="step")
    except Invalid as error:
        raise UsageError(f"%%loam step: {error}") from None
    outputs = [name.strip() for name in found.out.split(",") if name.strip()]
    for name in outputs:
        if not name.isidentifier():
            raise UsageError(f"%%loam step {found.name}: -o names {name!r}, which is no name of Python")
    return found.name, outputs


def _show(name: str, said: str, *, replayed: bool) -> None:
    from IPython.display import display

    text = f"step {name!r}: {said}"
    display({STEP: {"step": name, "replayed": replayed}, "text/plain": text}, raw=True)
