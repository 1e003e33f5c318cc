"""What a detached cell takes along from the notebook: modules by name, values by `--in`. Refuses what it would miss.

What was imported in the notebook is imported again under the same name: a module, or a function or class of one.
What the notebook itself made goes only where `--in` says so, for it may be large, old or secret.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from loam_lab.engines import cellnames, values
from loam_lab.errors import Invalid


@dataclass(frozen=True, slots=True)
class Carried:
    """`imports` as the child does them again, `inputs` packed."""

    imports: tuple[dict[str, str], ...]
    inputs: Mapping[str, values.Packed]


def carry(needed: cellnames.Names, inputs: Iterable[str], namespace: Mapping[str, Any]) -> Carried:
    """Take along what the cell needs.

    Raises:
        Invalid: a name is not there, needs `--in`, or cannot travel; says the line and the option that mends it.
    """
    packed = {name: _input(name, namespace) for name in inputs}
    if (size := values.size(packed)) > values.MAX_BYTES:
        raise Invalid(
            f"--in {','.join(packed)}: about {size:,} bytes; at most {values.MAX_BYTES:,} go with a cell. Write a "
            "table or a file, and read it in the cell",
            field="--in",
        )
    imports = []
    for name, line in needed.needed.items():
        if name in packed:
            continue
        if name not in namespace:
            if needed.is_believed:
                continue
            raise Invalid(
                f"line {line}: name {name!r} is not defined, in the cell or in the notebook. Define it in the cell; a "
                f"plain value can go with --param {name}=VALUE, as params[{name!r}]",
                field=name,
            )
        imports.append(_import(name, namespace[name], line))
    return Carried(tuple(imports), packed)


def _input(name: str, namespace: Mapping[str, Any]) -> values.Packed:
    if name not in namespace:
        raise Invalid(f"--in {name}: the notebook has no {name}", field="--in")
    value = namespace[name]
    if isinstance(value, ModuleType):
        raise Invalid(
            f"--in {name}: it is a module, and is imported again by itself where the cell uses it. Leave it out",
            field="--in",
        )
    try:
        return values.pack(name, value)
    except Invalid as error:
        raise Invalid(f"--in {name}: {error}", field="--in") from None


def _import(name: str, value: Any, line: int) -> dict[str, str]:
    if isinstance(value, ModuleType):
        if not _is_importable(value.__name__) or sys.modules.get(value.__name__) is not value:
            raise Invalid(
                f"line {line}: {name} is a module that the notebook made itself, so it cannot be imported again. Put "
                "it into a file beside the notebook",
                field=name,
            )
        return {"name": name, "module": value.__name__}
    if values.is_spark_frame(value):
        values.pack(name, value)  # says what to do
    module, attribute = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if isinstance(module, str) and isinstance(attribute, str) and _is_of(module, attribute, value):
        return {"name": name, "module": module, "attribute": attribute}
    kind = "class" if isinstance(value, type) else "function" if callable(value) and attribute else "value"
    what = f"a {kind}" if kind != "value" else f"a value ({type(value).__name__})"
    raise Invalid(
        f"line {line}: {name} is {what} of the notebook, which a worker does not have. Send it along: --in {name}. Or "
        "define it in the cell",
        field=name,
    )


def _is_of(module: str, attribute: str, value: Any) -> bool:
    if module == "__main__" or not _is_importable(module):
        return False
    found: Any = sys.modules.get(module)
    for part in attribute.split("."):
        found = getattr(found, part, None)
    return found is value


def _is_importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError, AttributeError):
        return False
