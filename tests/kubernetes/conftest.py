"""An API server that is a stand-in, over TLS."""

import io
from types import SimpleNamespace

import pytest

from fabricmon.runtime import logs
from tests.rigs.kube.standin import StandIn


@pytest.fixture(autouse=True)
def quiet():
    logs.configure(level="error", stream=io.StringIO())


@pytest.fixture(scope="session")
def certificate(authority):
    return authority.issue("kubernetes", "IP:127.0.0.1")


@pytest.fixture
async def cluster(authority, certificate, tmp_path):
    """The stand-in, and in `.access` how to reach it: api, token_file, ca_file."""
    server = await StandIn().start(certificate)
    token = tmp_path / "token"
    token.write_text("first\n")
    server.tokens = {"first"}
    server.token, server.ca = token, tmp_path / "ca.crt"
    server.ca.write_bytes(authority.ca.read_bytes())
    server.access = SimpleNamespace(api=server.url, token_file=str(token), ca_file=str(server.ca))
    yield server
    await server.stop()
