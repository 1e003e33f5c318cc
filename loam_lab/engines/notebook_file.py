"""Read a notebook file and say what is wrong with it, before anything runs. Needs nbformat; starts no kernel."""

from __future__ import annotations

import json
from typing import Any

from loam_lab.engines import formats, parameters
from loam_lab.errors import Invalid

PARAMETERS = "parameters"
MAX_BYTES = 64 * 1024 * 1024


def read(content: bytes, *, name: str) -> Any:
    """A notebook of format 4; `name` is what messages call it.

    Raises:
        Invalid: it is none; the message says what to change.
    """
    nbformat = formats.nbformat()
    if len(content) > MAX_BYTES:
        raise Invalid(f"{name} has {len(content):,} bytes; at most {MAX_BYTES:,}. Clear its outputs", field="FILE")
    try:
        raw = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{name} is not a notebook: it is not JSON ({error})", field="FILE") from None
    if not isinstance(raw, dict) or not isinstance(raw.get("nbformat"), int):
        raise Invalid(f"{name} is not a notebook: it has no nbformat", field="FILE")
    if raw["nbformat"] != 4:
        raise Invalid(
            f"{name} has notebook format {raw['nbformat']}; 4 is needed. Convert it with: "
            f"jupyter nbconvert --to notebook --inplace {name}",
            field="FILE",
        )
    try:
        found = nbformat.reads(content.decode("utf-8"), as_version=4)
        nbformat.validate(found, relax_add_props=True)
    except Exception as error:
        said = str(getattr(error, "message", error)).splitlines()[0][:200]
        raise Invalid(f"{name} is not a valid notebook: {said}", field="FILE") from None
    return found


def kernel_of(notebook: Any) -> str:
    """The name of the kernel that a notebook asks for; "" for none."""
    return str(notebook.metadata.get("kernelspec", {}).get("name", ""))


def checked_kernel(notebook: Any, asked: str, *, name: str) -> str:
    """The kernel to run it with: the one that is asked for, or its own; it is installed here.

    Raises:
        Invalid: the notebook names none, or it is not installed; those that are, are listed.
    """
    wanted = asked or kernel_of(notebook)
    if not wanted:
        raise Invalid(
            f"{name} names no kernel (metadata.kernelspec). Open it, choose a kernel and save it, or say --kernel NAME",
            field="kernel",
        )
    check_kernel(wanted)
    return wanted


# Languages that parameters can be written in, and what papermill calls them.
TRANSLATED = {
    "python": "python",
    "r": "R",
    "scala": "scala",
    "julia": "julia",
    "matlab": "matlab",
    "bash": "bash",
    "c#": ".net-csharp",
    "f#": ".net-fsharp",
    "powershell": ".net-powershell",
}


def language_of(notebook: Any) -> str:
    """The language of its cells."""
    spec = notebook.metadata.get("kernelspec", {})
    return str(spec.get("language") or notebook.metadata.get("language_info", {}).get("name") or "python").lower()


def parameters_cell(notebook: Any) -> Any | None:
    """The cell tagged `parameters`, None if there is none."""
    for cell in notebook.cells:
        if cell.cell_type == "code" and PARAMETERS in cell.metadata.get("tags", []):
            return cell
    return None


def declared(notebook: Any) -> list[parameters.Parameter]:
    """What a notebook's parameters cell declares; nothing for another language than Python."""
    cell = parameters_cell(notebook)
    return parameters.declared(cell.source) if cell is not None and language_of(notebook) == "python" else []


def checked_params(notebook: Any, given: dict[str, Any], *, texts: bool = False) -> dict[str, Any]:
    """The given parameters as the notebook declares them.

    Raises:
        Invalid: a name is not declared, or a value does not fit.
    """
    if not given:
        return {}
    if language_of(notebook) != "python":
        if parameters_cell(notebook) is None:
            raise Invalid("the notebook takes no parameters: no cell is tagged `parameters`", field="params")
        translated(language_of(notebook))
        return given  # the cells of other languages are not parsed
    return parameters.fitting(declared(notebook), given, texts=texts)


def translated(language: str) -> str:
    """What papermill calls a language.

    Raises:
        Invalid: it writes no values in it.
    """
    if language not in TRANSLATED:
        known = ", ".join(sorted(TRANSLATED))
        raise Invalid(f"parameters cannot be written in {language!r}; they can in: {known}", field="params")
    return TRANSLATED[language]


def check_kernel(name: str) -> str:
    """The kernel's language, where it is installed for this interpreter.

    Raises:
        Invalid: it is not; those that are, are listed.
    """
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    specs = KernelSpecManager()
    try:
        return str(specs.get_kernel_spec(name).language or "").lower()
    except NoSuchKernel:
        known = ", ".join(sorted(specs.find_kernel_specs())) or "none"
        raise Invalid(
            f"kernel {name!r} is not installed here; there are: {known}. Choose one with --kernel NAME", field="kernel"
        ) from None


def without_outputs(notebook: Any) -> str:
    """Its text without what earlier runs left: that is not part of what runs."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return str(formats.nbformat().writes(notebook))
