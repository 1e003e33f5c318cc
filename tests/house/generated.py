"""What is made from other files is up to date: the contract's code, and the table in docs/lifecycle.md.

`python tests/house/generated.py` checks and names what is stale; `--write` brings the table up to date.
"""

from __future__ import annotations

import filecmp
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from loam_lab.core.lifecycle import TRANSITIONS

ROOT = Path(__file__).parents[2]
DOC = ROOT / "docs" / "lifecycle.md"
_TABLE = re.compile(r"(<!-- table: made from core/lifecycle.py by make gen -->\n).*?(\n<!-- end -->)", re.DOTALL)


def table() -> str:
    """Every transition as a Markdown table."""
    lines = ["| state | happening | leads to | note |", "|---|---|---|---|"]
    for row in TRANSITIONS:
        state = f"{row.state}, {row.hold}" if row.hold else str(row.state)
        lines.append(f"| {state} | {row.happening} | {', '.join(row.to)} | {row.note} |")
    return "\n".join(lines)


def with_table(text: str) -> str:
    """The document with the table as it should be."""
    return _TABLE.sub(lambda found: found[1] + table() + found[2], text)


def stale_code() -> list[str]:
    """Files of loam_lab/rpc that differ from what the contract generates."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["buf", "generate", "--output", folder], cwd=ROOT, check=True)
        fresh, ours = Path(folder) / "loam_lab" / "rpc", ROOT / "loam_lab" / "rpc"
        names = {str(path.relative_to(base)) for base in (fresh, ours) for path in base.rglob("*.py")}
        return sorted(name for name in names if not _is_same(fresh / name, ours / name))


def stale_front_end() -> list[str]:
    """The same for labextension/src/gen; nothing where Node's plugin is not installed."""
    if not (ROOT / "labextension/node_modules/.bin/protoc-gen-es").exists():
        return []
    with tempfile.TemporaryDirectory() as folder:
        template = "labextension/buf.gen.yaml"
        subprocess.run(["buf", "generate", "--template", template, "--output", folder], cwd=ROOT, check=True)
        here = Path("labextension/src/gen")
        names = {str(path.relative_to(base)) for base in (Path(folder), ROOT) for path in (base / here).rglob("*.ts")}
        return sorted(name for name in names if not _is_same(Path(folder) / name, ROOT / name))


def _is_same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and filecmp.cmp(one, other, shallow=False)


def main() -> int:
    """Exit status 1 if something is stale."""
    text = DOC.read_text(encoding="utf-8")
    if "--write" in sys.argv:
        DOC.write_text(with_table(text), encoding="utf-8")
        return 0
    stale = [f"loam_lab/rpc/{name}" for name in stale_code()]
    stale += stale_front_end()
    stale += ["docs/lifecycle.md"] if with_table(text) != text else []
    for name in stale:
        print(f"stale: {name}. Try: make gen")
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main())
