"""From a real link that changes to its event in the agent's process, in a network namespace.

The delays are printed; a busy machine must not fail the test.
"""

import json
import os
import queue
import statistics
import subprocess
import sys
import time

import pytest

from fabricmon.host.rtnl import Rtnetlink

pytestmark = [pytest.mark.netns, pytest.mark.timeout(600)]

CHANGES = 100


def test_every_change_arrives_as_an_event(require):
    require("netns", "makes a real link")
    require("ip")
    name = f"fabricmon-{os.getpid()}-events"
    ip = ("ip", "-n", name)
    subprocess.run(["ip", "netns", "add", name], check=True, timeout=120)
    try:
        subprocess.run([*ip, "link", "add", "near", "type", "veth", "peer", "name", "far"], check=True, timeout=120)
        for end in ("near", "far"):
            subprocess.run([*ip, "link", "set", end, "up"], check=True, timeout=120)
        command = ["ip", "netns", "exec", name, sys.executable, "-m", "tests.netns.test_link_event_time"]
        done = subprocess.run(command, check=True, timeout=90, capture_output=True, text=True)
    finally:
        subprocess.run(["ip", "netns", "del", name], check=False, timeout=120)
    delays = json.loads(done.stdout)
    print(f"\nlink event: median {1000 * statistics.median(delays):.1f} ms, worst {1000 * max(delays):.1f} ms")
    assert len(delays) == CHANGES


def main() -> None:
    """Prints the seconds from each call of `ip link set far …` to the event of `near`, the start of `ip` included."""
    received: queue.Queue = queue.Queue()
    links = Rtnetlink()
    stop = links.watch(lambda link: received.put((time.monotonic(), link)))
    delays = []
    for n in range(CHANGES):
        start = time.monotonic()
        subprocess.run(["ip", "link", "set", "far", ("down", "up")[n % 2]], check=True, timeout=10)
        while True:
            at, link = received.get(timeout=10)
            if link is not None and (link.name, link.carrier) == ("near", n % 2):
                break
        delays.append(at - start)
        time.sleep(0.01)
    stop()
    links.close()
    print(json.dumps(delays))


if __name__ == "__main__":
    main()
