# ruff: noqa: E501 - the cells are data
"""Forty-odd cells of every kind, and where a detached one is meant to differ from an attached one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cell:
    """A cell. `differs` says in words why the two do not agree; `ends` is then (attached, detached) failure kinds.

    `own_kernel`: it would take the shared kernel with it.
    """

    name: str
    code: str
    fails: str = ""
    differs: str = ""
    ends: tuple[str, str] = ("", "")
    own_kernel: bool = False


CELLS = (
    Cell("expression", "6 * 7"),
    Cell("nothing shown", "6 * 7;"),
    Cell("streams in order", "import sys\nfor n in range(3):\n    print(n); print(n, file=sys.stderr, flush=True)"),
    Cell("displays in order", "from IPython.display import HTML, Markdown\nprint('a')\ndisplay(HTML('<b>b</b>'))\n"
         "print('c')\ndisplay(Markdown('*d*'), 5)\n'e'"),
    Cell("pandas table", "import pandas as pd\npd.DataFrame({'a': range(100), 'b': 1.5})"),
    Cell("spark table", "spark.range(100).selectExpr('id', 'cast(id as string) as s')"),
    Cell("spark show", "spark.range(3).show()"),
    Cell("matplotlib inline", "%matplotlib inline\nimport matplotlib.pyplot as plt\nfig, ax = plt.subplots(figsize=(1, 1))\n"
         "ax.plot([1, 2])"),
    Cell("two figures", "import matplotlib.pyplot as plt\nplt.figure(figsize=(1, 1)); plt.plot([1]); plt.show()\n"
         "print('between')\nplt.figure(figsize=(1, 1)); plt.plot([2]); plt.show()"),
    Cell("tqdm in text", "import sys\nfrom tqdm import tqdm\n"
         "for n in tqdm(range(50), file=sys.stdout, bar_format='{n_fmt}/{total_fmt}', mininterval=0): pass"),
    Cell("tqdm as a widget", "from tqdm.auto import tqdm\nimport time\n"
         "for n in tqdm(range(4), bar_format='{l_bar}{bar}{n_fmt}/{total_fmt}'): time.sleep(0.1)"),
    Cell("rich bar", "import rich.progress, time\nfrom rich.progress import BarColumn, Progress, TextColumn\n"
         "with Progress(TextColumn('work'), BarColumn(), TextColumn('{task.completed}')) as bar:\n"
         "    task = bar.add_task('', total=3)\n    for n in range(3): time.sleep(0.05); bar.advance(task)\n    bar.refresh()"),
    Cell("rich table", "from rich.table import Table\nfrom rich import print as say\nt = Table('a', 'b'); t.add_row('1', '2')\n"
         "say(t)"),
    Cell("a widget's text", "import ipywidgets\nipywidgets.IntSlider(value=3)"),
    Cell("a widget that changes", "import ipywidgets\nw = ipywidgets.IntProgress(value=1); display(w)\nw.value = 40"),
    Cell("an output widget", "import ipywidgets\nout = ipywidgets.Output(); display(out)\nprint('before')\n"
         "with out:\n    print('inside')\nprint('after')"),
    Cell("magics", "%pwd\n%env GONE_AND_SET=1\n%who_ls complex\nxx = 5j\n%whos complex"),
    Cell("cell magic below", "%%time\nprint('timed')"),
    Cell("captured", "%%capture kept\nprint('not seen')"),
    Cell("shell command", "!echo one; echo two 1>&2"),
    Cell("shell into a name", "got = !printf 'a\\nb'\nprint(got)"),
    Cell("subprocess", "import subprocess\nsubprocess.run(['sh', '-c', 'echo from below']).returncode\nimport time; time.sleep(0.4)"),
    Cell("descriptor", "import os\nos.write(1, b'raw\\n')\nimport time; time.sleep(0.4)"),
    Cell("await", "import asyncio\nawait asyncio.sleep(0.01)\nprint('awaited')"),
    Cell("gather", "import asyncio\nasync def f(n): return n\nawait asyncio.gather(*(asyncio.create_task(f(n)) for n in range(3)))"),
    Cell("asyncio.run inside", "import asyncio\nasync def f(): pass\nc = f()\ntry: asyncio.run(c)\n"
         "except RuntimeError as error: print(error)\nc.close()"),
    Cell("warnings", "import warnings\nwarnings.warn('careful')\nprint('on')"),
    Cell("logging", "import logging\nlogging.getLogger('x').error('logged')"),
    Cell("error", "def inner(x):\n    return 1 / x\n\ninner(0)", fails="ZeroDivisionError"),
    Cell("chained error", "try:\n    {}['a']\nexcept KeyError as error:\n    raise ValueError('because') from error", fails="ValueError"),
    Cell("syntax error at run time", "exec('x = = 1')", fails="SyntaxError"),
    Cell("spark error", "spark.sql('select * from no.such_table')", fails="AnalysisException"),
    Cell("unknown magic", "%no_such_magic", fails="UsageError"),
    Cell("fork", "import os\npid = os.fork()\nif pid == 0:\n    print('child', flush=True); os._exit(0)\n"
         "os.waitpid(pid, 0); print('parent')",
         differs="what a forked process prints reaches the front end of a kernel, but not the record of its cell"),
    Cell("chdir", "import os\nbefore = os.getcwd()\nos.chdir('/')\nprint(os.getcwd(), open('/etc/hostname').closed)\nos.chdir(before)"),
    Cell("signal handlers", "import os, signal\nheard = []\nbefore = signal.signal(signal.SIGUSR1, lambda *a: heard.append(a[0]))\n"
         "os.kill(os.getpid(), signal.SIGUSR1)\nprint(len(heard)); signal.signal(signal.SIGUSR1, before or signal.SIG_DFL);"),
    # 24 MB: above the cap of 16 MB that it is about. A whole gigabyte is printed in tests/worker/test_stopping.py.
    Cell("prints a gigabyte", "line = 'x' * 1023\nfor n in range(24 * 1024): print(line)"),
    Cell("sleeps in C", "import ctypes\nctypes.CDLL(None).usleep(200_000)\nprint('woke')"),
    Cell("SystemExit", "raise SystemExit(3)", fails="SystemExit"),
    Cell("sys.exit()", "import sys\nsys.exit()", fails="SystemExit"),
    Cell("classes", "from dataclasses import dataclass\nimport pickle\n@dataclass\nclass P:\n    x: int\n"
         "print(P(1), pickle.loads(pickle.dumps(P(2))), P.__module__)"),
    Cell("multiprocessing", "import multiprocessing as mp\ndef f(x): return x * x\n"
         "with mp.get_context('fork').Pool(2) as pool: print(pool.map(f, range(4)))"),
    Cell("threads", "import threading\nt = [threading.Thread(target=print, args=('t\\n',), kwargs={'end': ''}) for _ in range(3)]\n"
         "[x.start() for x in t]; [x.join() for x in t]; print('joined')"),
    Cell("cleared", "from IPython.display import clear_output\nfor n in range(3):\n    clear_output(wait=True); print('frame', n)"),
    Cell("updated", "h = display('a', display_id=True)\nprint('x')\nh.update('b')"),
    Cell("odd text", "print('ü\\x00\\x1b[1m\\u202e')\n{'nan': float('nan'), 'b': b'\\xff'}"),
    Cell("numbers of JSON", "from IPython.display import JSON\nJSON({'a': 1, 'b': 2.5})"),
    Cell("names", "print(__name__, '__file__' in globals(), type(get_ipython()).__name__)"),
    Cell("input", "input('who? ')", differs="a worker says how a value can be passed instead",
         ends=("StdinNotImplementedError", "StdinNotImplementedError")),
    Cell("a window", "%gui qt", differs="there is no screen in a worker; a kernel may have one, or not",
         ends=("*", "")),
    Cell("exit()", "print('a'); exit(keep_kernel=True); print('b')"),
    Cell("exits the interpreter", "import os, time; time.sleep(1.5); os._exit(3)", own_kernel=True,
         differs="attached: the kernel is lost; detached: the attempt is, and it is run once more",
         ends=("KernelLost", "ChildDied")),
    Cell("allocates without end", "held = []\nwhile True: held.append(bytearray(50_000_000))", own_kernel=True,
         differs="a kernel has only the limits that it was started with; a worker says which limit it was",
         ends=("MemoryError", "MemoryLimit")),
)  # fmt: skip
