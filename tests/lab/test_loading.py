"""%load_ext and %unload_ext: light, repeatable, and without a trace afterwards."""

import json
import subprocess
import sys

HEAVY = (
    "pyspark",
    "connectrpc",
    "protobuf",
    "google.protobuf",
    "pandas",
    "pyarrow",
    "rich",
    "jupyter_server",
    "pyqwest",
)
LOAD = f"""
import json, sys, time
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
began = time.perf_counter()
shell.run_line_magic("load_ext", "loam_lab")
took = time.perf_counter() - began
print(json.dumps({{"ms": took * 1000, "heavy": [name for name in {HEAVY!r} if name in sys.modules]}}))
"""


def test_loading_is_quick_and_imports_nothing_heavy(tmp_path):
    """100 ms are promised (see tests/bench); a busy machine gets more here."""
    found = [
        json.loads(
            subprocess.run(
                [sys.executable, "-c", LOAD], capture_output=True, check=True, timeout=60, cwd=tmp_path
            ).stdout
        )
        for _ in range(3)
    ]

    assert found[0]["heavy"] == []
    assert min(one["ms"] for one in found) < 250


def test_loading_starts_nothing(new_home, new_kernel):
    home = new_home()
    new_kernel(home)

    assert not home.path.exists()


def test_loading_twice_changes_nothing(home, new_kernel):
    kernel = new_kernel(home)
    assert kernel.run("%load_ext loam_lab\n%reload_ext loam_lab").ok

    said = kernel.spark("print('once')\n5")

    assert said.text() == "once\n"
    assert len({view["transient"]["display_id"] for view in said.views()}) == 1
    assert said.result["text/plain"] == "5"


def test_unloading_leaves_no_trace_and_loading_again_works(home, new_kernel):
    kernel = new_kernel(home, load=False)
    state = (
        "ip = get_ipython()\nprint(len(ip.input_transformers_cleanup), len(ip.ast_transformers), "
        "[len(c) for c in ip.events.callbacks.values()], 'loam' in ip.magics_manager.magics['cell'])"
    )
    before = kernel.run(state).text()
    assert kernel.run("%load_ext loam_lab").ok
    assert kernel.spark("made = 1").ok

    assert kernel.run("%unload_ext loam_lab").ok

    assert kernel.run(state).text() == before
    assert "UsageError" in kernel.spark("1").error
    assert kernel.run("spark.range(3).count()").ok
    assert kernel.run("%load_ext loam_lab").ok
    assert kernel.spark("made + 1").result["text/plain"] == "2"
