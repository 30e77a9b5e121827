"""Which certificates a client accepts, made by the real openssl, on this version of Python."""

import re
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from fabricmon.runtime.trust import trusting
from tests.conftest import ROOT
from tests.rigs.certificates import Authority

CA = {
    "basicConstraints": "critical,CA:TRUE", "keyUsage": "critical,keyCertSign,cRLSign", "subjectKeyIdentifier": "hash",
}  # fmt: skip
SERVER = {"subjectAltName": "DNS:localhost", "authorityKeyIdentifier": "keyid"}

LACKING = {
    "Missing Authority Key Identifier": (CA, {**SERVER, "authorityKeyIdentifier": "none"}),
    "CA cert does not include key usage extension": ({k: v for k, v in CA.items() if k != "keyUsage"}, SERVER),
    "Basic Constraints of CA cert not marked critical": ({**CA, "basicConstraints": "CA:TRUE"}, SERVER),
}  # fmt: skip
"""Error -> extensions of a CA and of a server's certificate, one of which is missing."""


def openssl(*words: object) -> None:
    done = subprocess.run(["openssl", *map(str, words)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def issued(folder: Path, ca: dict[str, str], server: dict[str, str]) -> Path:
    """`ca.crt`, and `server.pem` with certificate and key, in the folder."""
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "10")
    config = folder / "ca.cnf"
    config.write_text("[req]\ndistinguished_name=name\nx509_extensions=more\n[name]\n[more]\n" + extensions(ca))
    file = {name: folder / name for name in ("ca.crt", "ca.key", "server.crt", "server.key", "request", "extensions")}
    openssl("req", "-x509", *key, "-config", config, "-subj", "/CN=ca", "-keyout", file["ca.key"],
            "-out", file["ca.crt"])  # fmt: skip
    file["extensions"].write_text(extensions(server))
    openssl("req", "-new", *key[:5], "-subj", "/CN=server", "-keyout", file["server.key"], "-out", file["request"])
    openssl("x509", "-req", "-in", file["request"], "-CA", file["ca.crt"], "-CAkey", file["ca.key"], "-CAcreateserial",
            "-extfile", file["extensions"], "-days", "10", "-out", file["server.crt"])  # fmt: skip
    pem = folder / "server.pem"
    pem.write_text(file["server.crt"].read_text() + file["server.key"].read_text())
    return pem


def extensions(values: dict[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in values.items())


def handshake(client: ssl.SSLContext, pem: Path) -> str:
    """ "" or why the client refuses the server's certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [context.wrap_bio(up, down, server_side=True), client.wrap_bio(down, up, server_hostname="localhost")]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLCertVerificationError as error:
                return error.verify_message
    return ""


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """The context of a machine whose store has the CA in `tmp_path`."""

    def context() -> ssl.SSLContext:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.crt"))
        return trusting("")

    return context


@pytest.mark.parametrize("error", LACKING)
def test_what_python_3_13_requires_is_in_the_document_and_a_ca_file_does_without(error, tmp_path, system) -> None:
    pem = issued(tmp_path, *LACKING[error])
    assert handshake(trusting(str(tmp_path / "ca.crt")), pem) == ""
    assert handshake(system(), pem) == (error if sys.version_info >= (3, 13) else "")
    assert re.search(rf"^\| `{error}` \|", (ROOT / "docs/security.md").read_text(), re.MULTILINE)


def test_certificates_as_in_the_document_are_accepted_by_system_and_file(tmp_path, system) -> None:
    pem = issued(tmp_path, CA, SERVER)
    assert (handshake(system(), pem), handshake(trusting(str(tmp_path / "ca.crt")), pem)) == ("", "")


def test_the_certificate_of_the_server_itself_may_be_the_ca_file(tmp_path) -> None:
    pem = issued(tmp_path, CA, SERVER)
    assert handshake(trusting(str(tmp_path / "server.crt")), pem) == ""


def test_comments_around_certificates_may_have_any_encoding(tmp_path) -> None:
    pem, ca = issued(tmp_path, CA, SERVER), tmp_path / "ca.crt"
    for encoding in ("utf-8", "latin-1"):
        bundle = tmp_path / encoding
        bundle.write_bytes("# Autorité\n".encode(encoding) + ca.read_bytes() + "# Ende für heute\n".encode(encoding))
        assert handshake(trusting(str(bundle)), pem) == ""


def test_another_ca_is_refused(tmp_path) -> None:
    pem = issued(tmp_path, CA, SERVER)
    assert "unable to get" in handshake(trusting(str(Authority(tmp_path / "other").ca)), pem)


@pytest.mark.parametrize(
    ("content", "why"), [(None, "cannot be read: No such file"), ("x", "no certificates to trust in it"),
                         ("x" * (1 << 20) + "x", "larger than 1048576 bytes")],
)  # fmt: skip
def test_an_invalid_file_is_named(content, why, tmp_path) -> None:
    path = tmp_path / "ca.crt"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))}.*{why}"):
        trusting(str(path))
