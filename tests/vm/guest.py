"""Shared by the scripts in the test VM: shell lines, values of the fake ports, and waiting for an agent's page."""

from __future__ import annotations

import subprocess
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from fabricmon.catalogue import CATALOGUE

FAKE = Path("/sys/kernel/debug/fabfake")
OUT = Path("/out")
PATIENCE = 600.0  # seconds one step may take; the machine is emulated, on a busy host it is some 20 times slower


def say(text: str) -> None:
    print(f"[{time.monotonic():6.1f} s] {text}", flush=True)


def run(line: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(line, shell=True, text=True, capture_output=True, timeout=PATIENCE, check=False)
    if done.returncode:
        say(f"{line}: exit {done.returncode}: {done.stdout}{done.stderr}")
    return done


def sh(line: str) -> str:
    return run(line).stdout


def put(port: str, **values: int) -> None:
    (FAKE / port / "set").write_text("".join(f"{name} {value}\n" for name, value in values.items()))


def page(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=PATIENCE) as answer:
        return str(answer.read().decode())


def wait_page(
    agent: subprocess.Popen[bytes], address: str, what: str, *wanted: str, without: Sequence[str] = ()
) -> str:
    """The first page on which every wanted text stands and none of `without`; the last one when patience ends.

    Ends with the agent.
    """
    start, text = time.monotonic(), ""
    while time.monotonic() - start < PATIENCE:
        if agent.poll() is not None:
            raise SystemExit(f"the agent at {address} exited with {agent.returncode}")
        try:
            text = page(address)
        except OSError:
            text = ""
        if text and all(word in text for word in wanted) and not any(word in text for word in without):
            say(f"{address}: {what}, after {time.monotonic() - start:.1f} s")
            return text
        time.sleep(0.3)
    unwanted = [word for word in without if word in text]
    say(f"{address}: {what} did not come: missing {[word for word in wanted if word not in text]}, there {unwanted}")
    return text


def metric(key: str, *sources: str) -> str:
    """The metric of a counter file, found by the file's name, in the directories in which these devices have it."""
    for source in sources or ("counters", "hw_counters"):
        for counter in CATALOGUE.values():
            if counter.source == source and key in counter.keys:
                return counter.metric
    raise KeyError(key)
