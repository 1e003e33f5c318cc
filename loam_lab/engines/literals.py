"""Parameters as source text: papermill's translators, which write values as literals of the kernel's language.

For Python they are taught the values that JSON has no form for. No value is ever pasted as code: a text becomes a text.
"""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

from papermill.translators import PythonTranslator, papermill_translators


class Literals(PythonTranslator):  # type: ignore[misc]
    """Python literals, with dates, instants and decimals."""

    @classmethod
    def translate(cls, val: Any) -> str:
        """One value as an expression that needs no import of the notebook's."""
        match val:
            case datetime():
                return f"__import__('datetime').datetime.fromisoformat({val.isoformat()!r})"
            case date():
                return f"__import__('datetime').date.fromisoformat({val.isoformat()!r})"
            case Decimal():
                return f"__import__('decimal').Decimal({str(val)!r})"
            case str():
                return repr(val)
        return str(super().translate(val))

    @classmethod
    def translate_dict(cls, val: dict[Any, Any]) -> str:
        """Keys are texts, as JSON has them."""
        return "{" + ", ".join(f"{key!r}: {cls.translate(inner)}" for key, inner in val.items()) + "}"


def teach() -> None:
    """Have papermill write Python parameters so, whatever the kernel is called."""
    papermill_translators.register("python", Literals)
    papermill_translators.register("python3", Literals)
