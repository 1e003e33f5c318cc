"""The parameters of a notebook: what the cell tagged `parameters` declares, and values that fit it.

Values travel as JSON; what JSON has no form for is an object with one key: `{"$date": …}`, `{"$datetime": …}`,
`{"$decimal": …}`, `{"$float": "nan"}`. The rule kept here: a value is data. It is never read as code, and the cell is
parsed, never run.
"""

from __future__ import annotations

import ast
import difflib
import json
import math
import re
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from io import StringIO
from typing import Any

from loam_lab.errors import Invalid

TAGS = ("$date", "$datetime", "$decimal", "$float")
_SIMPLE = {"int", "float", "bool", "str", "date", "datetime", "Decimal", "list", "dict"}
_ALIASES = {"List": "list", "Dict": "dict", "Sequence": "list", "Mapping": "dict", "tuple": "list", "Tuple": "list"}
_BOOLEANS = {"true": True, "false": False, "yes": True, "no": False, "1": True, "0": False}
_NUMBER = re.compile(r"[+-]?\d[\d_]*")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A declared parameter. `type` is one word of those that are converted, or empty for any."""

    name: str
    type: str = ""
    annotation: str = ""
    default: Any = None
    default_text: str = ""
    help: str = ""
    is_optional: bool = False


def declared(source: str) -> list[Parameter]:
    """What a parameters cell declares, in order; the last declaration of a name counts.

    Raises:
        Invalid: the cell is not Python.
    """
    try:
        tree = ast.parse(_without_magics(source), type_comments=True)
    except (SyntaxError, ValueError) as error:
        raise Invalid(f"the parameters cell is not Python: {error}", field="params") from None
    comments = _comments(source)
    found: dict[str, Parameter] = {}
    for node in tree.body:
        for one in _declarations(node, comments):
            found[one.name] = one
    return list(found.values())


def fitting(known: list[Parameter], given: Mapping[str, Any], *, texts: bool = False) -> dict[str, Any]:
    """The given values as the declared types want them. `texts`: a text may stand for a value of its type, as typed.

    Raises:
        Invalid: a name is not declared (the known ones are listed), or a value does not fit; the message names it.
    """
    by_name = {one.name: one for one in known}
    for name in given:
        if name not in by_name:
            near = difflib.get_close_matches(name, by_name, 1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            listed = ", ".join(by_name) or "none: no cell is tagged `parameters`"
            raise Invalid(
                f"parameter {name!r} is not one of this notebook's; {hint}It has {listed}", field=f"params.{name}"
            )
    return {name: _fit(by_name[name], value, texts) for name, value in given.items()}


def to_python(value: Any) -> Any:
    """A value as Python has it, from its JSON form."""
    if isinstance(value, list):
        return [to_python(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1 and (tag := next(iter(value))) in TAGS:
        text = str(value[tag])
        try:
            return _TAGGED[tag](text)
        except (ValueError, InvalidOperation):
            raise Invalid(f"{text!r} is no {tag[1:]}", field="params") from None
    return {key: to_python(inner) for key, inner in value.items()}


def to_json(value: Any) -> Any:
    """A Python value in its JSON form; what has none is left for the caller's own check."""
    match value:
        case datetime():
            return {"$datetime": value.isoformat()}
        case date():
            return {"$date": value.isoformat()}
        case Decimal():
            return {"$decimal": str(value)}
        case float() if not math.isfinite(value):
            return {"$float": str(value)}
        case dict():
            return {key: to_json(inner) for key, inner in value.items()}
        case list() | tuple():
            return [to_json(inner) for inner in value]
    return value


_TAGGED: dict[str, Any] = {
    "$date": date.fromisoformat,
    "$datetime": datetime.fromisoformat,
    "$decimal": Decimal,
    "$float": float,
}


def _declarations(node: ast.stmt, comments: Mapping[int, str]) -> list[Parameter]:
    comment = comments.get(node.end_lineno or 0, "")
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [_parameter(node.target.id, node.annotation, node.value, comment)]
    if not isinstance(node, ast.Assign):
        return []
    annotation = _parsed(node.type_comment)
    comment = comment if node.type_comment is None else comment.partition("#")[2].strip()
    found = []
    for target in node.targets:  # a = b = 1
        names = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
        values = node.value.elts if isinstance(node.value, ast.Tuple | ast.List) and names != [target] else None
        kinds = annotation.elts if isinstance(annotation, ast.Tuple) and names != [target] else None
        for place, name in enumerate(names):
            if isinstance(name, ast.Name):
                value = node.value if names == [target] else values[place] if values and place < len(values) else None
                kind = annotation if names == [target] else kinds[place] if kinds and place < len(kinds) else None
                found.append(_parameter(name.id, kind, value, comment))
    return found


def _parameter(name: str, annotation: ast.expr | None, value: ast.expr | None, comment: str) -> Parameter:
    kind, optional, help_ = _kind(annotation)
    default = _plain(value)
    if annotation is None and default is not None:
        kind = type(default).__name__ if type(default).__name__ in _SIMPLE else ""
    is_none = isinstance(value, ast.Constant) and value.value is None
    return Parameter(
        name,
        kind,
        ast.unparse(annotation) if annotation else "",
        default,
        ast.unparse(value) if value is not None else "",
        help_ or comment,
        optional or is_none,
    )


def _kind(annotation: ast.expr | None) -> tuple[str, bool, str]:
    """(type, whether None is one of it, help) of an annotation, in every form that it may take."""
    match annotation:
        case ast.Constant(value=str() as text):  # "int", and `from __future__` habits
            return _kind(_parsed(text))
        case ast.Constant(value=None):
            return "", True, ""
        case ast.Name(id=name) | ast.Attribute(attr=name):  # int, datetime.date, typing.List
            name = _ALIASES.get(name, name)
            return (name if name in _SIMPLE else ""), False, ""
        case ast.BinOp(op=ast.BitOr(), left=left, right=right):  # int | None
            return _union([left, right])
        case ast.Subscript(value=outer, slice=inner):
            name = outer.attr if isinstance(outer, ast.Attribute) else getattr(outer, "id", "")
            parts = list(inner.elts) if isinstance(inner, ast.Tuple) else [inner]
            if name == "Optional":
                return _kind(inner)[0], True, ""
            if name == "Union":
                return _union(parts)
            if name in ("Annotated", "Final", "ClassVar"):
                kind, optional, _ = _kind(parts[0])
                texts = [part.value for part in parts[1:] if isinstance(part, ast.Constant)]
                return kind, optional, next((text for text in texts if isinstance(text, str)), "")
            if name == "Literal":
                values = [part.value for part in parts if isinstance(part, ast.Constant)]
                kinds = {type(value).__name__ for value in values if value is not None}
                return (kinds.pop() if len(kinds) == 1 else ""), None in values, ""
            return _kind(outer)
    return "", False, ""


def _union(parts: list[ast.expr]) -> tuple[str, bool, str]:
    found = [_kind(part) for part in parts]
    kinds = {kind for kind, _, _ in found if kind}
    is_none = any(optional for _, optional, _ in found)
    has_other = any(not kind and not optional for kind, optional, _ in found)
    return (kinds.pop() if len(kinds) == 1 and not has_other else ""), is_none, ""


def _plain(value: ast.expr | None) -> Any:
    """The value of a default that is plain: a literal, or a date, datetime, Decimal or float of literals."""
    if value is None:
        return None
    try:
        return ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, RecursionError):
        pass
    if not isinstance(value, ast.Call) or value.keywords:
        return None
    name = value.func.attr if isinstance(value.func, ast.Attribute) else getattr(value.func, "id", "")
    make = {"date": date, "datetime": datetime, "Decimal": Decimal, "float": float}.get(name)
    try:
        return make(*(ast.literal_eval(argument) for argument in value.args)) if make else None
    except (ValueError, TypeError, InvalidOperation):
        return None


def _fit(one: Parameter, value: Any, texts: bool) -> Any:
    if value is None:
        if one.type and not one.is_optional and one.annotation:
            raise Invalid(f"parameter {one.name!r} is {one.annotation}, not None", field=f"params.{one.name}")
        return None
    plain = to_python(value)
    try:
        return to_json(_converted(one.type, plain, texts))
    except (ValueError, TypeError, InvalidOperation):
        shown = repr(plain) if len(repr(plain)) <= 60 else repr(plain)[:57] + "…"
        raise Invalid(
            f"parameter {one.name!r} takes {_wanted(one)}; {shown} is {_article(plain)}", field=f"params.{one.name}"
        ) from None


def _converted(kind: str, value: Any, texts: bool) -> Any:
    if not kind:
        return value
    if texts and isinstance(value, str) and kind != "str":
        return _from_text(kind, value.strip())
    if texts and kind == "str" and not isinstance(value, str):
        return json.dumps(value) if isinstance(value, bool | dict | list) else str(value)
    match kind, value:
        case "float", int() if not isinstance(value, bool):
            return float(value)
        case "Decimal", int() if not isinstance(value, bool):
            return Decimal(value)
        case "Decimal", float() | str():
            return Decimal(str(value))
        case "date", datetime():
            return value.date()
        case "date", str():
            return datetime.fromisoformat(value).date()
        case "datetime", str():
            return datetime.fromisoformat(value)
        case "datetime", date() if not isinstance(value, datetime):
            return datetime(value.year, value.month, value.day)  # noqa: DTZ001 - as it was written
    if type(value).__name__ != kind:
        raise TypeError(kind)
    return value


def _from_text(kind: str, text: str) -> Any:
    if kind == "bool":
        return _BOOLEANS[text.lower()] if text.lower() in _BOOLEANS else _no(kind)
    if kind == "int":
        return int(text) if _NUMBER.fullmatch(text) else _no(kind)
    if kind in ("list", "dict"):
        found = json.loads(text)
        return found if type(found).__name__ == kind else _no(kind)
    makes: dict[str, Any] = {
        "float": float,
        "Decimal": Decimal,
        "date": lambda one: datetime.fromisoformat(one).date(),
        "datetime": datetime.fromisoformat,
    }
    return makes[kind](text)


def _no(kind: str) -> Any:
    raise TypeError(kind)


def _wanted(one: Parameter) -> str:
    like = {"date": "2027-01-31", "datetime": "2027-01-31T06:00", "bool": "true", "list": "[1, 2]", "dict": '{"a": 1}'}
    shown = f", written like {like[one.type]}" if one.type in like else ""
    return f"{one.annotation or one.type}{shown}"


def _article(value: Any) -> str:
    return {"str": "text", "NoneType": "None"}.get(type(value).__name__, type(value).__name__)


def _parsed(text: str | None) -> ast.expr | None:
    try:
        return ast.parse(text, mode="eval").body if text else None
    except SyntaxError:
        return None


def _without_magics(source: str) -> str:
    return "\n".join("" if line.lstrip().startswith(("%", "!")) else line for line in source.splitlines())


def _comments(source: str) -> dict[int, str]:
    """The comment at the end of each line."""
    found: dict[int, str] = {}
    try:
        for token in tokenize.generate_tokens(StringIO(_without_magics(source)).readline):
            if token.type == tokenize.COMMENT:
                found[token.start[0]] = token.string.lstrip("# ").strip()
    except (tokenize.TokenError, SyntaxError):
        pass
    return found
