"""A proxy for the rest of the world is none for this machine."""

from loam_lab import config

PROXIES = {"HTTP_PROXY": "http://127.0.0.1:1", "http_proxy": "http://127.0.0.1:1", "ALL_PROXY": "http://127.0.0.1:1"}


def test_loopback_is_added_to_what_is_named_already():
    assert config.past_proxies({})["NO_PROXY"] == "127.0.0.1,localhost"
    assert config.past_proxies({"no_proxy": "corp,localhost"})["no_proxy"] == "corp,localhost,127.0.0.1"


def test_everything_works_behind_a_proxy_that_answers_nothing(home):
    text = "spark.sql('create database lake')\nspark.range(2).writeTo('lake.t').create()\n"
    home.loam("run", "submit", home.file("proxy.py", text), "--wait", env=PROXIES)
    assert "2 rows" in home.loam("table", "show", "lake.t", env=PROXIES).out
