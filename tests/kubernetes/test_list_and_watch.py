"""The client of the API, and LIST and WATCH on it, against the wire over TLS."""

import asyncio
import contextlib
import json
import random

import pytest

from fabricmon.kubernetes import client as api
from fabricmon.kubernetes import listwatch
from fabricmon.kubernetes.client import ApiError, KubernetesClient, server
from fabricmon.kubernetes.listwatch import ListWatch
from fabricmon.kubernetes.objects import NODES
from fabricmon.kubernetes.objects import parse_node as read_node
from tests.central.streams import until
from tests.rigs.certificates import Authority
from tests.rigs.kube.standin import node


@pytest.fixture
async def nodes(cluster, monkeypatch):
    """The cluster's nodes, followed; `.errors` has what failed."""
    monkeypatch.setattr(listwatch, "RELIST", 0.05)
    client = KubernetesClient(server(**vars(cluster.access)), 5.0)
    watch = ListWatch(client, NODES, read_node)
    watch.errors, watch.told = [], 0

    def told():
        watch.told += 1

    task = asyncio.create_task(watch.keep(told, watch.errors.append, 1.0, random.Random(1)))
    yield watch
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    watch.close()
    await client.close()


def names(watch):
    return sorted(one.name for one in watch.items.values())


def lists(cluster):
    return [query for method, path, query in cluster.asked if path == NODES and "watch" not in query]


def watching(cluster):
    return [query for _, path, query in cluster.asked if path == NODES and "watch" in query]


def fill(cluster, *wanted):
    for name in wanted:
        cluster.put(NODES, node(name))


async def test_all_pages_are_listed_and_changes_come_by_watch(cluster, nodes):
    fill(cluster, "a", "b", "c", "d", "e")
    await until(lambda: names(nodes) == ["a", "b", "c", "d", "e"])
    assert [query.get("continue") for query in lists(cluster)][-3:] == [None, "2", "4"]
    await until(lambda: cluster.watches)
    cluster.put(NODES, node("f"))
    cluster.delete(NODES, "a")
    await until(lambda: names(nodes) == ["b", "c", "d", "e", "f"])
    assert nodes.errors == []


async def test_a_watch_that_ends_is_taken_up_from_its_bookmark(cluster, nodes):
    fill(cluster, "a")
    await until(lambda: cluster.watches)
    cluster.bookmark(NODES)
    await asyncio.sleep(0.1)
    listed = len(lists(cluster))
    cluster.end_watches()
    await until(lambda: len(watching(cluster)) >= 2)
    assert watching(cluster)[-1]["resourceVersion"] == str(cluster.version)
    assert watching(cluster)[-1]["allowWatchBookmarks"] == "true"
    assert len(lists(cluster)) == listed, "no new LIST"


@pytest.mark.parametrize("when", ["while it runs", "when it begins"])
async def test_after_410_all_is_listed_anew_and_what_left_meanwhile_is_gone(cluster, nodes, when):
    fill(cluster, "a", "b")
    await until(lambda: cluster.watches)
    del cluster.objects[NODES]["a"]  # nobody tells
    cluster.forget()
    gone = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}
    if when == "while it runs":
        cluster.say(json.dumps(gone).encode() + b"\n")
    else:
        cluster.end_watches()
    await until(lambda: names(nodes) == ["b"])
    assert nodes.errors == []


async def test_a_list_whose_next_page_is_too_old_begins_anew(cluster, nodes):
    cluster.stale = 1
    fill(cluster, "a", "b", "c")
    cluster.forget()
    cluster.end_watches()
    await until(lambda: names(nodes) == ["a", "b", "c"])
    assert cluster.stale == 0


async def test_a_token_that_expired_is_read_again_and_nothing_is_forgotten_meanwhile(cluster, nodes):
    fill(cluster, "a")
    await until(lambda: names(nodes) == ["a"])
    cluster.tokens = {"second"}
    cluster.end_watches()
    await until(lambda: any("HTTP 401" in error for error in nodes.errors))
    assert names(nodes) == ["a"]
    cluster.token.write_text("second\n")
    cluster.put(NODES, node("b"))
    await until(lambda: names(nodes) == ["a", "b"])


async def test_a_token_that_is_replaced_between_reading_and_asking_costs_nothing(cluster, monkeypatch):
    cluster.tokens = {"second"}
    client = KubernetesClient(server(**vars(cluster.access)), 5.0)
    read = iter(["first", "second", "second"])
    monkeypatch.setattr(client, "_token", lambda: next(read))
    assert b"items" in await client.get(NODES)
    await client.close()


async def test_a_server_that_restarts_is_found_again(cluster, nodes, certificate):
    fill(cluster, "a")
    await until(lambda: cluster.watches)
    port = cluster.port
    await cluster.stop()
    await until(lambda: nodes.errors)
    assert names(nodes) == ["a"]
    await cluster.start(certificate, port)
    cluster.put(NODES, node("b"))
    await until(lambda: names(nodes) == ["a", "b"])


async def test_an_event_that_is_none_begins_anew(cluster, nodes):
    fill(cluster, "a")
    await until(lambda: cluster.watches)
    cluster.say(b"<html>gateway\n")
    await until(lambda: nodes.errors)
    cluster.put(NODES, node("b"))
    await until(lambda: names(nodes) == ["a", "b"])


async def test_an_endless_event_is_cut(cluster, nodes, monkeypatch):
    monkeypatch.setattr(api, "MAX_LINE", 10_000)
    fill(cluster, "a")
    await until(lambda: cluster.watches)
    cluster.say(b"x" * 50_000)
    await until(lambda: any("more than 10000 bytes" in error for error in nodes.errors))


async def test_an_object_that_cannot_be_understood_costs_itself_only(cluster, nodes):
    cluster.put(NODES, {"metadata": {"name": "odd", "labels": [1, 2]}})
    fill(cluster, "a")
    await until(lambda: names(nodes) == ["a"])
    await until(lambda: nodes.odd)
    (words,) = nodes.odd.values()
    assert words.startswith("odd: ")
    cluster.put(NODES, node("odd"))
    await until(lambda: names(nodes) == ["a", "odd"])
    assert nodes.odd == {}


async def test_a_refusal_says_what_the_server_says(cluster, nodes):
    cluster.forbidden = {("GET", "/nodes")}
    cluster.end_watches()
    await until(lambda: any('"/api/v1/nodes" is forbidden' in error for error in nodes.errors))


async def test_only_a_server_that_the_ca_signed_is_trusted_and_the_ca_may_be_replaced(cluster, tmp_path, authority):
    other = Authority(tmp_path / "other")
    cluster.ca.write_bytes(other.ca.read_bytes())
    client = KubernetesClient(server(**vars(cluster.access)), 5.0)
    with pytest.raises(ApiError, match="certificate verify failed"):
        await client.get(NODES)
    assert cluster.asked == [], "no token went there"
    cluster.ca.write_bytes(authority.ca.read_bytes() + b"\n")
    assert b"items" in await client.get(NODES)
    await client.close()


@pytest.mark.parametrize("content", [b"", b"two\nlines", b"\xff\xfe", b"x" * 70_000])
async def test_a_token_file_without_a_token_is_an_error_before_anything_is_sent(cluster, content):
    cluster.token.write_bytes(content)
    client = KubernetesClient(server(**vars(cluster.access)), 5.0)
    with pytest.raises(ApiError, match="token file"):
        await client.get(NODES)
    assert cluster.asked == []


def test_inside_a_pod_the_service_account_says_everything():
    found = server("cluster", environ={"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"})
    assert found.url == "https://[fd00::1]:6443"
    assert found.token_file.endswith("serviceaccount/token")
    with pytest.raises(ApiError, match="not inside a cluster"):
        server("cluster", environ={})
