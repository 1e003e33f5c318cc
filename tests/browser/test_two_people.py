"""Two people on one Jupyter server: each acts under their own name, and each sees who did what."""

import re

import pytest
from conftest import FLAGS
from pages import Lab, Tab, chromium
from playwright.sync_api import expect

# Whose token came in the address is who they are from then on, by cookie; nothing of it is in the page.
_TWO = """
from jupyter_server.auth.identity import IdentityProvider, User

class Two(IdentityProvider):
    auth_enabled = True
    people = {"adas-token": "ada", "bobs-token": "bob"}

    async def get_user(self, handler):
        user = self.get_user_cookie(handler)
        named = self.people.get(handler.get_argument("token", ""))
        if named and (user is None or user.username != named):
            user = User(named)
            self.set_login_cookie(handler, user)
        return user

c.ServerApp.identity_provider_class = Two
"""


@pytest.fixture(scope="module")
def shared_lab(home, tmp_path_factory):
    one = Lab(home, tmp_path_factory.mktemp("shared"), token="", config=_TWO)
    yield one
    one.close()


@pytest.fixture(scope="module")
def strangers(playwright):
    """Two contexts: neither has anything of the other's, nor of the other tests' person."""
    browser = playwright.chromium.launch(executable_path=chromium(), headless=True, args=FLAGS.split())
    yield [browser.new_context(), browser.new_context()]
    browser.close()


@pytest.fixture
def ada_and_bob(strangers, shared_lab):
    tabs = [Tab(context, shared_lab) for context in strangers]
    for tab, token in zip(tabs, ("adas-token", "bobs-token"), strict=True):
        tab.page.goto(f"{shared_lab.url}lab?reset&token={token}")
    yield [tab.ready() for tab in tabs]
    for tab in tabs:
        tab.close()


def test_each_sees_who_started_and_who_stopped_a_run(ada_and_bob, shared_lab, home):
    ada, bob = ada_and_bob
    (shared_lab.root / "shared.py").write_text("import time\nprint('on')\ntime.sleep(60)\n")
    for tab in (ada, bob):
        tab.sidebar()
    ada.command("loam:run-as-job", path="shared.py")
    ada.page.get_by_role("dialog").get_by_role("button", name="Submit").click()
    hers = ada.page.locator("#loam-runs").get_by_role("option", name=re.compile("^shared.py, "))
    expect(hers).to_have_attribute("data-state", "running")
    run_id = hers.get_attribute("data-run")
    assert home.get(run_id).job.actor == "ada"
    expect(hers).not_to_contain_text("by ada")  # she knows

    his = bob.row(run_id)
    expect(his).to_have_attribute("data-state", "running")
    expect(his).to_contain_text("by ada")
    his.click()
    page = bob.page.locator(".jp-loam-page:visible")
    expect(page.locator(".jp-loam-facts")).to_contain_text("by ada")
    page.get_by_role("button", name="Cancel").click()

    expect(hers).to_have_attribute("data-state", "cancelled")
    expect(hers).to_contain_text("stopped by bob")
    hers.click()
    expect(ada.page.locator(".jp-loam-page:visible .jp-loam-facts")).to_contain_text("stopped by bob")
    expect(page.locator(".jp-loam-facts")).to_contain_text("cancelled")
    ada.page.reload()
    ada.ready()
    expect(ada.page.locator(".jp-loam-page:visible .jp-loam-facts")).to_contain_text("stopped by bob")
    # Neither can take the other's name: what a browser says of itself is not believed.
    said = bob.page.evaluate(
        """async run => {
            const settings = window.jupyterapp.serviceManager.serverSettings;
            const xsrf = document.cookie.match(/_xsrf=([^;]*)/)[1];
            const reply = await fetch(settings.baseUrl + 'loam/call/Retry', {
                method: 'POST', body: JSON.stringify({job_id: run, request_id: 'again'}),
                headers: {'content-type': 'application/json', 'x-xsrftoken': xsrf, 'loam-actor': 'ada'}});
            return [settings.token, reply.status, await reply.json()];
        }""",
        run_id,
    )
    assert said[:2] == ["", 200]
    again = said[2]["job_id"]
    assert home.get(again).job.actor == "bob"
    expect(ada.row(again)).to_contain_text("by bob")
    home.here("run", "cancel", again)
