"""The web configuration file: what is wrong in it, at which line; what it asks for and cannot have."""

import subprocess

import pytest

from fabricmon.config import ConfigError
from fabricmon.web import file
from tests.web.conftest import RIGHT

TLS = "tls_server_config:\n  cert_file: a.crt\n  key_file: a.key\n"


@pytest.mark.parametrize(("text", "said"), [
    ("tls_server_confg: {}\n", "F:1: tls_server_confg: unknown key, did you mean 'tls_server_config'?"),
    (TLS + "  keyfile: b\n", "F:4: tls_server_config.keyfile: unknown key, did you mean 'key_file'?"),
    ("tls_server_config: {cert_file: a}\n", "F:1: tls_server_config: 'key_file' is missing"),
    (TLS + "  min_version: TLS14\n", "F:4: tls_server_config.min_version: expected one of TLS10, TLS11, TLS12, TLS13"),
    (TLS + "  min_version: TLS13\n  max_version: TLS12\n", "'min_version' is above 'max_version'"),
    (TLS + "  cipher_suites:\n  - TLS_RSA_WITH_RC4_128_SHA\n", "F:5: tls_server_config.cipher_suites[0]: unknown"),
    (TLS + "  curve_preferences: [CurveP256, X25519]\n", "F:4: tls_server_config.curve_preferences: at most one curve"),
    (TLS + "  curve_preferences: [P256]\n", "F:4: tls_server_config.curve_preferences[0]: unknown curve 'P256'"),
    (TLS + "  client_auth_type: RequireAndVerifyClientCert\n", "needs 'client_ca_file'"),
    (TLS + "  client_ca_file: b\n", "'client_ca_file' without a 'client_auth_type' that requests"),
    (TLS + "  client_auth_type: RequireAnyClientCert\n  client_ca_file: b\n",
     "F:4: tls_server_config.client_auth_type: not supported: a requested certificate is always verified"),
    (TLS + "  client_auth_type: VerifyClientCertIfGiven\n  client_ca_file: b\n  client_allowed_sans: [x]\n",
     "'client_allowed_sans' needs 'client_auth_type' RequireAndVerifyClientCert"),
    ("http_server_config:\n  headers:\n    X-Frame-Option: deny\n", "F:3: http_server_config.headers.X-Frame-Option:"),
    ("http_server_config:\n  headers:\n    X-Frame-Options: never\n", "expected one of deny, sameorigin"),
    ('http_server_config:\n  headers:\n    X-XSS-Protection: "0\\r\\nSet-Cookie: a"\n', "a header is one line of text"),
    ("basic_auth_users:\n  mara: secret\n", "F:2: basic_auth_users.mara: not a bcrypt hash"),
    (f"basic_auth_users:\n  'a:b': {RIGHT}\n", "a user's name is text without a colon"),
    (f"basic_auth_users:\n  a: {RIGHT.replace('$04$', '$18$')}\n", "a cost of 18: 4 to 15 can be checked in time"),
    ("rate_limit: {interval: 1}\n", "F:1: rate_limit.interval: expected a duration"),
    ("rate_limit: {burst: -1}\n", "F:1: rate_limit.burst: expected at least 0"),
])  # fmt: skip
def test_what_is_wrong_is_named_with_its_line(tmp_path, text, said):
    path = tmp_path / "web.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        file.load(str(path))
    assert said in str(caught.value).replace(str(path), "F")


def test_paths_are_relative_to_the_file_they_stand_in(tmp_path):
    path = tmp_path / "web.yaml"
    path.write_text(TLS + "  client_ca_file: /etc/ca.crt\n  client_auth_type: VerifyClientCertIfGiven\n")
    server = file.load(str(path)).tls_server_config
    assert (server.cert_file, server.key_file) == (str(tmp_path / "a.crt"), str(tmp_path / "a.key"))
    assert server.client_ca_file == "/etc/ca.crt"


def test_all_that_is_wrong_is_reported_at_once(tmp_path):
    path = tmp_path / "web.yaml"
    path.write_text("a: 1\nb: 2\nbasic_auth_users: {x: y, z: w}\n")
    with pytest.raises(ConfigError) as caught:
        file.load(str(path))
    assert len(caught.value.problems) == 4


@pytest.mark.peer
@pytest.mark.parametrize(("text", "good"), [
    ("", True), (f"basic_auth_users: {{mara: {RIGHT}}}\n", True), ("basic_auth_users: {mara: x}\n", None),
    ("http_server_config: {http2: false, headers: {X-Frame-Options: deny}}\n", True),
    ("http_server_config: {headers: {X-Frame-Options: never}}\n", False), ("unknown: 1\n", False),
    ("tls_server_config: {cert_file: none.crt, key_file: none.key}\n", None),
])  # fmt: skip
def test_promtool_and_we_agree(require, tmp_path, text, good):
    """None: promtool lets it pass, and finds out when the server starts; we say so before."""
    path = tmp_path / "web.yml"
    path.write_text(text)
    done = subprocess.run([require("promtool", "checks web configurations"), "check", "web-config", path],
                          capture_output=True, text=True, timeout=60)  # fmt: skip
    if good is not None:
        assert (done.returncode == 0) == good, done.stderr
    try:
        file.load(str(path))
        ours = True
    except ConfigError:
        ours = False
    assert ours == (good if good is not None else "none.crt" in text)
