"""TLS of a listener by real handshakes: who is let in, who is not, and how certificates change under way."""

import asyncio
import ssl

import aiohttp
import pytest

from fabricmon.config import ConfigError
from tests.rigs.certificates import Authority, Pair
from tests.web.conftest import client, status, until


def tls(pair, **more):
    return {"tls_server_config": {"cert_file": str(pair.cert), "key_file": str(pair.key), **more}}


def mutual(pair, authority, **more):
    return tls(pair, client_auth_type="RequireAndVerifyClientCert", client_ca_file=str(authority.ca), **more)


async def test_who_trusts_the_authority_gets_in(serve, authority, server):
    at = await serve(tls(server))
    assert await status(f"https://localhost:{at.port}/metrics", ssl=client(authority.ca)) == 200
    assert await status(f"http://127.0.0.1:{at.port}/metrics") is None
    await until(lambda: at.gate.door.refused["handshake"] >= 1)
    with pytest.raises(aiohttp.ClientConnectorCertificateError, match="unable to get local issuer certificate"):
        async with aiohttp.ClientSession() as http:
            await http.get(f"https://localhost:{at.port}/metrics", ssl=client())
    await until(lambda: at.gate.door.open == 0)


async def test_a_certificate_that_has_ended_is_no_certificate(serve, authority):
    at = await serve(tls(authority.issue("old", "DNS:localhost", expired=True)))
    with pytest.raises(aiohttp.ClientConnectorCertificateError, match="certificate has expired"):
        async with aiohttp.ClientSession() as http:
            await http.get(f"https://localhost:{at.port}/metrics", ssl=client(authority.ca))
    assert at.gate.warnings() == ["The certificate of the listener has expired"]


async def test_only_a_certificate_of_the_right_authority_opens(serve, authority, server, tmp_path):
    at = await serve(mutual(server, authority))
    url = f"https://localhost:{at.port}/metrics"
    known, other = authority.issue("central", "DNS:central.example"), Authority(tmp_path / "other").issue("central")
    late = authority.issue("late", "DNS:central.example", expired=True)
    assert await status(url, ssl=client(authority.ca, known)) == 200
    assert await status(url, ssl=client(authority.ca)) is None
    assert await status(url, ssl=client(authority.ca, other)) is None
    assert await status(url, ssl=client(authority.ca, late)) is None
    await until(lambda: at.gate.door.refused["handshake"] >= 3 and at.gate.door.open == 0)


async def test_only_names_that_are_allowed_get_in(serve, authority, server):
    at = await serve(mutual(server, authority, client_allowed_sans=["central.example", "10.0.0.9"]))
    url = f"https://localhost:{at.port}/metrics"
    for name, sans, let_in in (
        ("central", "DNS:central.example", True),
        ("address", "IP:10.0.0.9", True),
        ("node-1", "DNS:node-1,DNS:xserver.example", False),
        ("central.example", "", False),  # a common name is no alternative name
    ):
        pair = authority.issue(name, sans)
        assert await status(url, ssl=client(authority.ca, pair)) == (200 if let_in else None), name
    assert at.gate.door.refused["certificate"] >= 2  # the client tries again


async def test_versions_and_suites_are_those_asked_for(serve, authority, server):
    suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    at = await serve(tls(server, min_version="TLS12", max_version="TLS12", cipher_suites=[suite]))
    _, writer = await asyncio.open_connection("localhost", at.port, ssl=client(authority.ca))
    encrypted = writer.get_extra_info("ssl_object")
    assert (encrypted.version(), encrypted.cipher()[0]) == ("TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384")
    writer.close()
    strict = client(authority.ca, minimum_version=ssl.TLSVersion.TLSv1_3)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection("localhost", at.port, ssl=strict)
    at = await serve(tls(server, min_version="TLS13"))
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection(
            "localhost", at.port, ssl=client(authority.ca, maximum_version=ssl.TLSVersion.TLSv1_2)
        )


def serial(writer):
    return writer.get_extra_info("ssl_object").getpeercert()["serialNumber"]


async def test_a_new_certificate_is_taken_up_under_load_and_an_open_stream_stays(serve, authority, tmp_path):
    own = authority.issue("rotated", "DNS:localhost", to=Pair(tmp_path / "r.crt", tmp_path / "r.key"))
    at = await serve(tls(own))
    context = client(authority.ca)

    async def shown():
        _, writer = await asyncio.open_connection("localhost", at.port, ssl=context)
        number = serial(writer)
        writer.close()
        return number

    first, failed, asked, stop = await shown(), [], [], asyncio.Event()

    async def load():
        while not stop.is_set():
            got = await status(f"https://localhost:{at.port}/metrics", ssl=context)
            asked.append(got)
            if got != 200:
                failed.append(got)

    async with aiohttp.ClientSession() as http:
        stream = await http.ws_connect(f"https://localhost:{at.port}/stream", ssl=context)
        workers = [asyncio.create_task(load()) for _ in range(4)]
        await until(lambda: len(asked) > 20)
        before = at.gate.watched.reloads
        authority.issue("rotated", "DNS:localhost", to=own)
        await until(lambda: at.gate.watched.reloads > before)
        mark = len(asked)
        await until(lambda: len(asked) > mark + 20)
        stop.set()
        await asyncio.gather(*workers)
        await stream.send_str("still here")
        assert (await stream.receive_str(timeout=120)) == "still here"
        await stream.close()
    assert failed == []
    assert await shown() != first
    assert at.gate.watched.failures == 0


async def test_other_authorities_and_names_are_taken_up_too(serve, authority, server, tmp_path):
    trusted = tmp_path / "clients.crt"
    trusted.write_bytes(authority.ca.read_bytes())
    at = await serve(tls(server, client_auth_type="RequireAndVerifyClientCert", client_ca_file=str(trusted)))
    newer = Authority(tmp_path / "newer")
    old, new = authority.issue("a", "DNS:a"), newer.issue("b", "DNS:b")
    url = f"https://localhost:{at.port}/metrics"
    assert await status(url, ssl=client(authority.ca, new)) is None
    trusted.write_bytes(newer.ca.read_bytes())
    await until(lambda: at.gate.watched.reloads)
    assert await status(url, ssl=client(authority.ca, new)) == 200
    assert await status(url, ssl=client(authority.ca, old)) is None


async def test_a_bad_file_keeps_what_was_and_is_reported(serve, authority, server, tmp_path):
    own = Pair(tmp_path / "r.crt", tmp_path / "r.key")
    authority.issue("kept", "DNS:localhost", to=own)
    at = await serve(tls(own))
    url, context = f"https://localhost:{at.port}/metrics", client(authority.ca)
    good = own.cert.read_bytes()
    own.cert.write_bytes(server.cert.read_bytes())
    await until(lambda: at.gate.warnings())
    (warning,) = at.gate.warnings()
    assert "the key is not that of the certificate" in warning
    assert {f.name: f.samples[0].value for f in at.gate.families()}["fabricmon_web_config_reload_success"] == 0
    assert await status(url, ssl=context) == 200
    at.path.write_text("tls_server_config: {cert_file: a, key: b}\nbasic_auth_user: {}\n")
    await until(lambda: "unknown key" in "".join(at.gate.warnings()))
    assert f"{at.path}:2: basic_auth_user: unknown key, did you mean 'basic_auth_users'?" in at.gate.warnings()[0]
    assert await status(url, ssl=context) == 200
    own.cert.write_bytes(good)
    at.path.write_text(f"tls_server_config: {{cert_file: {own.cert}, key_file: r.key}}\n")
    await until(lambda: not at.gate.warnings())
    assert await status(url, ssl=context) == 200


async def test_nothing_starts_on_a_bad_certificate(serve, server, tmp_path):
    with pytest.raises(ConfigError, match=r"tls_server_config: /nowhere/a.crt cannot be read"):
        await serve({"tls_server_config": {"cert_file": "/nowhere/a.crt", "key_file": str(server.key)}})
    (tmp_path / "empty").write_text("")
    with pytest.raises(ConfigError, match="no certificates to trust in it"):
        await serve(tls(server, client_auth_type="RequireAndVerifyClientCert", client_ca_file=str(tmp_path / "empty")))


async def test_certificates_and_keys_may_stand_in_the_file_itself(serve, authority, server):
    at = await serve({"tls_server_config": {
        "cert": server.cert.read_text(), "key": server.key.read_text(), "client_ca": authority.ca.read_text(),
        "client_auth_type": "VerifyClientCertIfGiven"}})  # fmt: skip
    url = f"https://localhost:{at.port}/"
    assert await status(url, ssl=client(authority.ca)) == 200
    assert await status(url, ssl=client(authority.ca, authority.issue("mara"))) == 200


async def test_a_listener_becomes_encrypted_by_its_file(serve, authority, server):
    at = await serve({})
    assert await status(f"http://127.0.0.1:{at.port}/metrics") == 200
    at.path.write_text(f"tls_server_config: {{cert_file: {server.cert}, key_file: {server.key}}}\n")
    await until(lambda: at.gate.watched.reloads)
    assert await status(f"http://127.0.0.1:{at.port}/metrics") is None
    assert await status(f"https://localhost:{at.port}/metrics", ssl=client(authority.ca)) == 200
