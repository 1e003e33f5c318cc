"""What a parameters cell declares, in every form; and values that fit it, as data."""

import math
from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loam_lab.engines import literals, parameters
from loam_lab.errors import Invalid

FORMS = [
    ("x: int = 1", "int", False, 1),
    ("x = 1", "int", False, 1),
    ("x = 1  # type: int", "int", False, 1),
    ("x = None  # type: int", "int", True, None),
    ("x: 'int' = 1", "int", False, 1),
    ('x: "float" = 1', "float", False, 1),
    ("x: int", "int", False, None),
    ("x: int | None = None", "int", True, None),
    ("x: None | str = 'a'", "str", True, "a"),
    ("x: Optional[float] = None", "float", True, None),
    ("x: typing.Optional[float] = None", "float", True, None),
    ("x: Union[int, None] = 3", "int", True, 3),
    ("x: Union[int, str] = 3", "", False, 3),
    ("x: 'int | None' = None", "int", True, None),
    ("x: Annotated[int, 'how many'] = 1", "int", False, 1),
    ("x: Final[int] = 1", "int", False, 1),
    ("x: Literal['a', 'b'] = 'a'", "str", False, "a"),
    ("x: list[int] = [1]", "list", False, [1]),
    ("x: typing.List[str] = []", "list", False, []),
    ("x: Dict[str, int] = {}", "dict", False, {}),
    ("x: dict = {'a': 1}", "dict", False, {"a": 1}),
    ("x: datetime.date = datetime.date(2027, 1, 2)", "date", False, date(2027, 1, 2)),
    ("x: date = None", "date", True, None),
    ("x = Decimal('1.10')", "Decimal", False, Decimal("1.10")),
    ("x: SomeClass = make()", "", False, None),
    ("x = -1.5", "float", False, -1.5),
    ("x = os.environ['HOME']", "", False, None),
    ("%matplotlib inline\nx = True", "bool", False, True),
]


@pytest.mark.parametrize(("source", "kind", "optional", "default"), FORMS, ids=[form[0] for form in FORMS])
def test_every_form_of_declaration(source, kind, optional, default):
    [one] = parameters.declared(source)
    assert (one.name, one.type, one.is_optional, one.default) == ("x", kind, optional, default)


def test_lists_of_names_comments_and_what_is_no_parameter():
    source = (
        "a, b = 1, 'two'  # a pair\nc = d = 3.0\nimport os\nf(x=1)\ne: int = 5  # how many\nobject.y = 1\ne = 6 # more"
    )
    found = {one.name: (one.type, one.help) for one in parameters.declared(source)}
    assert found == {
        "a": ("int", "a pair"),
        "b": ("str", "a pair"),
        "c": ("float", ""),
        "d": ("float", ""),
        "e": ("int", "more"),
    }


def test_help_of_an_annotation_comes_first():
    assert parameters.declared("x: Annotated[int, 'of the table'] = 1  # other")[0].help == "of the table"


KNOWN = parameters.declared(
    "n: int = 1\nf: float = 1.0\nb: bool = False\ns: str = ''\nd: date = None\nt: datetime = None\n"
    "m: Decimal = None\nxs: list = []\nany = make()\nmaybe: int | None = 1"
)

TEXTS = [
    ("n", "5", 5),
    ("n", 5, 5),
    ("f", "2", 2.0),
    ("f", 2, 2.0),
    ("f", "nan", {"$float": "nan"}),
    ("b", "true", True),
    ("b", "No", False),
    ("s", 5, "5"),
    ("s", "5", "5"),
    ("s", '__import__("os").system("x")', '__import__("os").system("x")'),
    ("d", "2027-01-02", {"$date": "2027-01-02"}),
    ("d", "2027-01-02T06:00:00+01:00", {"$date": "2027-01-02"}),
    ("t", "2027-01-02T06:00:00+01:00", {"$datetime": "2027-01-02T06:00:00+01:00"}),
    ("m", "1.10", {"$decimal": "1.10"}),
    ("xs", "[1, 2]", [1, 2]),
    ("any", "what", "what"),
    ("maybe", None, None),
]


@pytest.mark.parametrize(("name", "given_", "wanted"), TEXTS)
def test_a_text_stands_for_a_value_of_its_type(name, given_, wanted):
    assert parameters.fitting(KNOWN, {name: given_}, texts=True) == {name: wanted}


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("n", "abc", "'n' takes int; 'abc' is text"),
        ("n", 1.5, "takes int; 1.5 is float"),
        ("n", True, "takes int; True is bool"),
        ("n", None, "is int, not None"),
        ("b", "maybe", "written like true"),
        ("d", "tomorrow", "written like 2027-01-31"),
        ("m", "much", "takes Decimal"),
        ("xs", "{}", r"written like \[1, 2\]"),
        ("other", 1, r"'other' is not one of this notebook's; .*It has n, f, b"),
        ("nn", 1, "did you mean 'n'"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(name, value, said):
    with pytest.raises(Invalid, match=said) as error:
        parameters.fitting(KNOWN, {name: value}, texts=True)
    assert error.value.field == f"params.{name}"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates() | st.decimals(allow_nan=False)
    | st.datetimes(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


def same(one, other):
    if isinstance(one, float) and math.isnan(one):
        return isinstance(other, float) and math.isnan(other)
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return type(one) is type(other) and one == other


@given(JSON.filter(lambda value: not (isinstance(value, dict) and set(value) & set(parameters.TAGS))))
@settings(max_examples=300, deadline=None)
def test_values_come_back_as_they_were_through_json_and_through_source(value):
    back = parameters.to_python(parameters.to_json(value))
    assert same(value, back)
    assert same(value, eval(literals.Literals.translate(back), {}))


def test_a_text_is_never_code():
    for text in ('"); import os; ("', "'\\'; x", "{}", "\n\nimport os", "é\u2028😀\x00"):
        assert eval(literals.Literals.translate(text), {}) == text


def test_a_cell_that_is_not_python_is_refused():
    with pytest.raises(Invalid, match="parameters cell is not Python"):
        parameters.declared("x := 1")
