"""Which names a cell needs is told from its text, and it is believed where that cannot be."""

import pytest

from loam_lab.engines import cellnames


@pytest.mark.parametrize(
    ("code", "needed"),
    [
        ("x = 1\nprint(x, y)", ["y"]),
        ("total = total + 1", ["total"]),
        ("total += 1", ["total"]),
        ("y = (n := 4) + n", []),
        ("def f(): return g()\ndef g(): return h", ["h"]),
        ("class A:\n    b = c\n    def d(self): return A", ["c"]),
        ("[i for i in q]", ["q"]),
        ("import a.b as c, d.e\nc, d", []),
        ("for i in range(3): last = i\nprint(last, i)", []),
        ("with open('x') as f: pass\nf", []),
        ("await fetch()", ["fetch"]),
        ("lambda k: k + u", ["u"]),
        ("print(f'{w!r}')", ["w"]),
        ("def f():\n    global made\n    made = 1\nf()\nmade", []),
        ("spark.range(3), params, display, get_ipython, _", []),
        ("get_ipython().run_cell_magic('time', '', 'z = zz + 1\\n')", ["zz"]),
        ("try:\n    x\nexcept NameError:\n    x = 1", []),
    ],
)
def test_needed_names(code, needed):
    found = cellnames.names(code)
    assert list(found.needed) == needed


@pytest.mark.parametrize(
    "code", ["from m import *\nx", "exec('x = 1')\nx", "try: x\nexcept (NameError, KeyError): pass"]
)
def test_a_cell_whose_names_cannot_be_told_is_believed(code):
    assert cellnames.names(code).is_believed


def test_a_syntax_error_names_its_line():
    [problem] = cellnames.check("\n\nx = = 1")
    assert problem.line == 3
    assert cellnames.check("await x") == []
