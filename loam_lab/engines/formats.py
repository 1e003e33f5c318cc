"""nbformat, loaded in a fifth of its time.

nbformat checks notebooks with jsonschema, which builds a parser of international addresses when it is loaded: three
seconds of a core, where a trivial notebook needs one and a half. No schema of notebooks has such an address, so
jsonschema is loaded without that parser, in the processes that are ours: commands and the children that run notebooks.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

_ADDRESSES = "rfc3987_syntax"


def nbformat() -> Any:
    """The module nbformat. Call it before anything else that loads jsonschema: papermill, nbclient, nbconvert."""
    if "jsonschema" not in sys.modules and _ADDRESSES not in sys.modules:
        sys.modules[_ADDRESSES] = None  # type: ignore[assignment]  # "not installed", for the next line alone
        try:
            importlib.import_module("jsonschema")
        finally:
            del sys.modules[_ADDRESSES]
    return importlib.import_module("nbformat")
