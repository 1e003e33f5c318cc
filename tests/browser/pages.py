"""JupyterLab as a person uses it: a real server on a home of its own, Debian's Chromium, and few words for both."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
from homes import Home, until
from playwright.sync_api import BrowserContext, Error, Locator, Page, Request

PREFIX = "/user/ada lovelace/".replace(" ", "%20")
# Neither news, nor a picture over the page while it starts, nor a look whether Lab's own scripts want building.
_LAB = {
    "disabledExtensions": {
        "@jupyterlab/apputils-extension:announcements": True,
        "@jupyterlab/apputils-extension:splash": True,
    },
    "buildCheck": False,
}


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def chromium() -> str:
    """The browser, or what to do where there is none."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert found, "no Chromium here; on Debian and Ubuntu: apt-get install -y --no-install-recommends chromium"
    return found


class Lab:
    """A Jupyter server with JupyterLab on a LOAM_HOME."""

    def __init__(self, home: Home, folder: Path, *, token: str = "t0ken", config: str = "") -> None:
        self.home = home
        self.port = free_port()
        self.token = token
        self.root = home.work
        own = folder / "jupyter"
        self.settings = own / "config"
        self.settings.joinpath("labconfig").mkdir(parents=True)
        (self.settings / "labconfig" / "page_config.json").write_text(json.dumps(_LAB))
        (self.settings / "jupyter_server_config.py").write_text(config)
        env = {
            **home.env,
            "JUPYTER_CONFIG_DIR": str(self.settings),
            "JUPYTER_DATA_DIR": str(own / "data"),
            "JUPYTER_RUNTIME_DIR": str(own / "runtime"),
            "IPYTHONDIR": str(own / "ipython"),
            "JUPYTERLAB_SETTINGS_DIR": str(own / "settings"),
            "JUPYTERLAB_WORKSPACES_DIR": str(own / "workspaces"),
        }
        self._log = (folder / "jupyter.log").open("wb")
        self._program = subprocess.Popen(
            [
                *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1"),
                *(f"--port={self.port}", "--ServerApp.port_retries=0", f"--IdentityProvider.token={token}"),
                *(f"--ServerApp.base_url={PREFIX}", f"--ServerApp.root_dir={self.root}"),
                "--LabApp.expose_app_in_browser=True",
            ],
            env=env,
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        until(self._answers, 60, "JupyterLab")

    @property
    def url(self) -> str:
        """The server's address with its prefix."""
        return f"http://127.0.0.1:{self.port}{PREFIX}"

    def _answers(self) -> bool:
        assert self._program.poll() is None, Path(self._log.name).read_text()[-2000:]
        try:
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            return bool(opener.open(f"{self.url}api?token={self.token}", timeout=2).status == 200)
        except OSError:
            return False

    @property
    def pid(self) -> int:
        """The Jupyter server's process."""
        return self._program.pid

    def close(self) -> None:
        """End the server and its kernels."""
        self._program.send_signal(signal.SIGTERM)
        try:
            self._program.wait(15)
        except subprocess.TimeoutExpired:
            self._program.kill()
            self._program.wait(5)
        self._log.close()

    def notebook(self, name: str, *sources: str) -> str:
        """Write a notebook of code cells."""
        cells = [nbformat.v4.new_code_cell(source) for source in sources]
        book = nbformat.v4.new_notebook(
            cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}}
        )
        nbformat.write(book, self.root / name)
        return name


class Tab:
    """One page of Lab."""

    def __init__(self, context: BrowserContext, lab: Lab, *, width: int = 1280, height: int = 860) -> None:
        self.lab = lab
        self.page: Page = context.new_page()
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.set_default_timeout(12_000)
        self.problems: list[str] = []
        self.calls: list[str] = []
        self.page.on("request", self._note)
        self.page.on("pageerror", self._heed_error)

    def _heed_error(self, error: Error) -> None:
        # Lab's own, such as that a killed kernel's last request was never answered, are not ours to mend.
        if "loam-lab" in (error.stack or ""):
            self.problems.append(str(error.stack))

    def _note(self, request: Request) -> None:
        if "/loam/call/" in request.url:
            self.calls.append(request.url.split("?")[0].rsplit("/", 1)[1])

    def open(self, query: str = "reset", path: str = "lab") -> Tab:
        """Load Lab and wait until it is there."""
        self.page.goto(f"{self.lab.url}{path}?{query}&token={self.lab.token}")
        return self.ready()

    def ready(self) -> Tab:
        """Wait until Lab is restored."""
        # A second page of the same workspace is sent on to another one in the middle of that.
        while True:
            try:
                self.page.wait_for_function("window.jupyterapp !== undefined")
                self.page.evaluate("window.jupyterapp.restored")
                break
            except Error as error:
                if "context was destroyed" not in str(error):
                    raise
        return self

    def reload(self) -> Tab:
        """As F5."""
        self.page.goto(f"{self.lab.url}lab?token={self.lab.token}")
        return self.ready()

    def sidebar(self) -> Locator:
        """The sidebar of runs, shown."""
        self.command("loam:show-runs")
        found = self.page.locator("#loam-runs")
        found.wait_for()
        return found

    def command(self, name: str, **arguments: Any) -> None:
        """Execute one of Lab's commands."""
        self.page.evaluate(
            "([name, given]) => { void window.jupyterapp.commands.execute(name, given); }", [name, arguments]
        )

    def notebook(self, path: str, *, kernel: bool = True) -> Locator:
        """A notebook opened, its kernel ready."""
        self.page.evaluate(
            """async ([path, kernel]) => {
                const panel = await window.jupyterapp.commands.execute('docmanager:open', {path});
                await panel.context.ready;
                if (kernel) {
                    await panel.sessionContext.ready;
                    await panel.sessionContext.session?.kernel?.info;
                }
            }""",
            [path, kernel],
        )
        found = self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
        found.locator(".jp-Cell").first.wait_for()
        return found

    def run_cell(self, at: int) -> None:
        """Run one cell without waiting for its end."""
        self.page.evaluate(
            """at => {
                const panel = window.jupyterapp.shell.currentWidget;
                panel.content.activeCellIndex = at;
                void window.jupyterapp.commands.execute('notebook:run-cell');
            }""",
            at,
        )

    def theme(self, name: str) -> None:
        """JupyterLab Light, JupyterLab Dark, JupyterLab Dark High Contrast."""
        self.page.evaluate("theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", name)
        self.page.wait_for_function("theme => document.body.dataset.jpThemeName === theme", arg=name)

    def row(self, run_id: str) -> Locator:
        """A run in the sidebar."""
        return self.page.locator(f'#loam-runs [data-run="{run_id}"]')

    def close(self) -> None:
        """Close the page; a script error on it fails the test."""
        self.page.close()
        assert not self.problems, "\n".join(self.problems)


def wait_for(what: Callable[[], bool], seconds: float = 12.0, words: str = "") -> None:
    """Poll until true."""
    until(what, seconds, words)
