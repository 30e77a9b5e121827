"""Who may do what: users, tokens and certificates, and what they may not; foreign pages; names."""

import asyncio

import bcrypt
import pytest

from fabricmon.config import ConfigError
from fabricmon.runtime.buckets import MAX_CLIENTS, Buckets
from fabricmon.web.admission import access
from fabricmon.web.admission.access import Level
from fabricmon.web.gate import ATTEMPTS
from tests.web.conftest import RIGHT, answer, basic, client, status, until

USERS = {"basic_auth_users": {"mara": RIGHT, "prometheus": RIGHT, "jon": RIGHT}}
ALL = ("/metrics", "/api/v1/nodes", "POST /api/v1/silences")


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


async def may(at, headers=None, **more):
    """Statuses of scraping, reading and changing."""
    scheme = "https" if "ssl" in more else "http"
    found = []
    for one in ALL:
        method, _, path = one.rpartition(" ")
        found.append(await status(f"{scheme}://localhost:{at.port}{path}", method or "GET", headers=headers, **more))
    return found


async def test_without_settings_everybody_may_everything(serve):
    assert await may(await serve()) == [200, 200, 200]


async def test_users_may_what_their_role_says(serve):
    at = await serve(USERS, roles={"mara": "change", "prometheus": "scrape"})
    assert await may(at) == [401, 401, 401]
    assert await may(at, basic("mara")) == [200, 200, 200]
    assert await may(at, basic("jon")) == [200, 200, 403]
    assert await may(at, basic("prometheus")) == [200, 403, 403]
    assert await may(at, basic("mara", "wrong")) == [401, 401, 401]
    assert await may(at, basic("nobody")) == [401, 401, 401]
    code, text, headers = await answer(f"http://{at.address}/api/v1/silences", "POST", headers=basic("jon"))
    assert (code, text) == (403, '{"error":"jon has role read, this needs change (web.roles)"}')
    code, text, headers = await answer(f"http://{at.address}/")
    assert headers.getall("WWW-Authenticate") == ['Basic realm="fabricmon", charset="UTF-8"']
    assert text == "this needs a user and password\n"


async def test_probes_answer_to_everybody_unless_told_not_to(serve):
    at = await serve(USERS)
    assert [await status(f"http://{at.address}/-/{p}") for p in ("live", "ready", "healthy")] == [200, 200, 200]
    at = await serve(USERS, probes=False)
    assert await status(f"http://{at.address}/-/ready") == 401
    assert await status(f"http://{at.address}/-/ready", headers=basic("jon")) == 200


async def test_tokens_for_reading_and_for_changing(serve, tmp_path):
    read, change = tmp_path / "read", tmp_path / "change"
    read.write_text("reader\n")
    change.write_text("changer\n")
    at = await serve(token_file=str(read), change_token_file=str(change))
    assert await may(at) == [401, 401, 401]
    assert await may(at, bearer("reader")) == [200, 200, 403]
    assert await may(at, bearer("changer")) == [200, 200, 200]
    assert await may(at, bearer("Changer")) == [401, 401, 401]
    at = await serve(change_token_file=str(change))
    assert await may(at) == [200, 200, 401]
    assert await may(at, bearer("changer")) == [200, 200, 200]
    assert await may(at, basic("proxy")) == [200, 200, 401]  # whose password is for somebody else


async def test_an_old_and_a_new_token_hold_while_they_are_changed(serve, tmp_path):
    path = tmp_path / "token"
    path.write_text("old\n")
    at = await serve(token_file=str(path))
    for content, old, new in (("new\nold\n", 200, 200), ("new\n", 401, 200)):
        before = at.gate.watched.reloads
        path.write_text(content)
        await until(lambda before=before: at.gate.watched.reloads > before)
        assert (await may(at, bearer("old")))[1] == old
        assert (await may(at, bearer("new")))[1] == new
    path.write_text("")
    await until(at.gate.warnings)
    assert "must hold 1 to 8 tokens" in at.gate.warnings()[0]
    assert (await may(at, bearer("new")))[1] == 200


async def test_a_user_whose_password_changed(serve, tmp_path):
    at = await serve(USERS)
    assert (await may(at, basic("jon")))[1] == 200
    at.path.write_text(f"basic_auth_users: {{mara: {RIGHT}}}\n")
    await until(lambda: at.gate.watched.reloads)
    assert (await may(at, basic("jon")))[1] == 401
    assert (await may(at, basic("mara")))[1] == 200


async def test_certificates_have_roles_by_their_names(serve, authority, server):
    at = await serve(
        {"tls_server_config": {"cert_file": str(server.cert), "key_file": str(server.key),
                               "client_ca_file": str(authority.ca), "client_auth_type": "VerifyClientCertIfGiven"}},
        anonymous="nothing", roles={"san:mara.example": "change", "san:prom.example": "scrape"},
    )  # fmt: skip
    mara, prom = authority.issue("m", "DNS:mara.example"), authority.issue("p", "DNS:prom.example")
    assert await may(at, ssl=client(authority.ca)) == [401, 401, 401]
    assert await may(at, ssl=client(authority.ca, mara)) == [200, 200, 200]
    assert await may(at, ssl=client(authority.ca, prom)) == [200, 403, 403]
    assert await may(at, ssl=client(authority.ca, authority.issue("other", "DNS:o"))) == [200, 200, 403]
    assert await status(f"https://localhost:{at.port}/-/ready", ssl=client(authority.ca)) == 200


async def test_callers_learn_what_they_may(serve):
    at = await serve(USERS, roles={"mara": "change"})
    code, text, _ = await answer(f"http://{at.address}/api/v1/access", headers=basic("mara"))
    assert (code, text) == (200, '{"caller":"mara","may":"change","ways":["basic"]}')


async def test_a_role_for_nobody_is_a_mistake(serve):
    with pytest.raises(ConfigError, match=r"central\.web\.roles\.mary: no such user in basic_auth_users"):
        await serve(USERS, roles={"mary": "change"})


@pytest.mark.parametrize("credentials", ["Basic", "Basic ???", "Basic bWFyYQ==", "Basic " + "A" * 6000, "Bearer x"])
async def test_credentials_that_are_none(serve, credentials):
    at = await serve(USERS)
    assert await status(f"http://{at.address}/", headers={"Authorization": credentials}) == 401


# --- guesses


async def test_guessing_is_slowed_down_and_costs_the_one_who_guesses(serve):
    at = await serve(USERS)
    assert (await may(at, basic("mara")))[1] == 200
    seen = [await status(f"http://{at.address}/", headers=basic("mara", f"guess {n}")) for n in range(ATTEMPTS + 5)]
    assert seen == [401] * ATTEMPTS + [429] * 5
    code, _, headers = await answer(f"http://{at.address}/", headers=basic("mara", "guess"))
    assert code == 429
    assert int(headers["Retry-After"]) >= 1
    assert (await may(at, basic("mara")))[1] == 200  # who was let in before stays in


async def test_many_with_one_password_cost_one_check(serve, monkeypatch):
    checked = []
    real = bcrypt.checkpw
    monkeypatch.setattr(bcrypt, "checkpw", lambda *a: checked.append(a) or real(*a))
    at = await serve(USERS)
    found = await asyncio.gather(*(status(f"http://{at.address}/", headers=basic("mara")) for _ in range(30)))
    assert found == [200] * 30
    assert len(checked) == 1
    await status(f"http://{at.address}/", headers=basic("who"))
    await status(f"http://{at.address}/", headers=basic("who"))
    assert len(checked) == 2  # one who does not exist is checked like one who does, and remembered like one


async def test_a_rate_limit_is_each_clients_own(serve):
    at = await serve({"rate_limit": {"interval": "1h", "burst": 3}})
    assert [await status(f"http://{at.address}/metrics") for _ in range(5)] == [200, 200, 200, 429, 429]
    assert await status(f"http://{at.address}/-/ready") == 200
    assert at.gate.refused["rate"] == 2


def test_a_debt_of_a_bucket_is_bounded_and_fills_up():
    buckets = Buckets(rate=2.0, burst=10)
    assert buckets.charge("a", 10, 0.0)
    assert not buckets.charge("a", 1, 0.0)
    assert not buckets.charge("a", 1e9, 0.0)
    assert buckets.level("a", 0.0) == -10
    assert buckets.level("a", 5.0) == 0
    assert buckets.charge("a", 2, 6.0)
    assert buckets.charge("b", 10, 6.0)


def test_buckets_fill_again_and_are_bounded():
    buckets = Buckets(rate=2.0, burst=3)
    assert [buckets.take("a", 10.0) for _ in range(4)] == [0, 0, 0, 0.5]
    assert buckets.take("b", 10.0) == 0
    assert buckets.take("a", 10.6) == 0
    for n in range(MAX_CLIENTS + 5):
        buckets.take(str(n), 11.0)
    assert buckets.level("a", 11.0) == 3


# --- browsers


@pytest.mark.parametrize(("headers", "code"), [
    ({"Origin": "http://evil.example"}, 403),
    ({"Origin": "null"}, 403),
    ({"Origin": "http://{here}"}, 200),
    ({"Origin": "https://{here}"}, 200),  # a proxy that ends TLS before us
    ({"Origin": "https://fabric.example"}, 200),  # external_url
    ({"Origin": "http://fabric.example"}, 403),
    ({"Sec-Fetch-Site": "cross-site"}, 403),
    ({"Sec-Fetch-Site": "same-origin"}, 200),
    ({"Sec-Fetch-Site": "same-site"}, 403),
    ({"Origin": "http://rebound.example:1", "Host": "rebound.example:1"}, 421),
    ({"Origin": "http://fabric.example:1", "Host": "fabric.example:1"}, 200),
    ({"Host": "whatever.example"}, 200),  # no browser sent it
])  # fmt: skip
async def test_foreign_pages_change_nothing(serve, headers, code):
    at = await serve(external_url="https://fabric.example")
    headers = {name: value.replace("{here}", at.address) for name, value in headers.items()}
    assert await status(f"http://{at.address}/api/v1/silences", "POST", headers=headers) == code
    assert await status(f"http://{at.address}/api/v1/silences", "DELETE", headers=headers) == code
    assert await status(f"http://{at.address}/metrics", headers=headers) == 200


async def test_a_password_that_a_browser_remembers_is_of_no_use_to_a_foreign_page(serve):
    at = await serve(USERS, roles={"mara": "change"})
    headers = {**basic("mara"), "Origin": "http://evil.example"}
    assert await status(f"http://{at.address}/api/v1/silences", "POST", headers=headers) == 403


async def test_only_known_names_where_names_are_given(serve):
    at = await serve(hosts=["fabric.example"])
    seen = {host: await status(f"http://{at.address}/metrics", headers={"Host": host})
            for host in ("fabric.example", "FABRIC.example.:9791", "127.0.0.1:1", "[::1]", "localhost", "evil.example",
                         "fabric.example.evil", "")}  # fmt: skip
    assert seen == {"fabric.example": 200, "FABRIC.example.:9791": 200, "127.0.0.1:1": 200, "[::1]": 200,
                    "localhost": 200, "evil.example": 421, "fabric.example.evil": 421, "": 421}  # fmt: skip
    assert await status(f"http://{at.address}/-/ready", headers={"Host": "probe"}) == 200


# --- the decision itself


def test_levels_of_requests():
    assert access.needed("GET", "/-/ready") is Level.NOTHING
    assert access.needed("GET", "/metrics") is Level.SCRAPE
    assert access.needed("HEAD", "/stream") is Level.READ
    assert access.needed("DELETE", "/metrics") is Level.CHANGE
    assert access.needed("BREW", "/") is Level.CHANGE


@pytest.mark.parametrize(("there", "level"), [
    ({}, Level.CHANGE), ({"changing": True}, Level.READ), ({"users": True}, Level.NOTHING),
    ({"reading": True}, Level.NOTHING), ({"required": True}, Level.NOTHING), ({"certificates": True}, Level.CHANGE),
    ({"users": True, "changing": True}, Level.NOTHING),
])  # fmt: skip
def test_what_nobody_in_particular_may(there, level):
    assert access.policy_of("", {}, **there).anonymous_caller().level is level
    assert access.policy_of("read", {}, **there).anonymous_caller().level is Level.READ


async def test_headers_of_the_file_are_on_every_answer(serve):
    at = await serve({**USERS, "http_server_config": {"headers": {"Strict-Transport-Security": "max-age=1"}}})
    for headers in ({}, basic("mara")):
        assert (await answer(f"http://{at.address}/", headers=headers))[2]["Strict-Transport-Security"] == "max-age=1"


def test_times_do_not_tell_who_exists():
    """Not measured, which no shared machine allows: the unknown user's check is of the dearest hash there is."""
    from fabricmon.web.passwords import Passwords

    passwords = Passwords()
    passwords.configure({"a": RIGHT, "b": RIGHT.replace("$04$", "$06$")})
    assert passwords._dearest.startswith(b"$2y$06$")
