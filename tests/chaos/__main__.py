"""`python -m tests.chaos --faults 1000 --seed 1`: a campaign of faults and its table. Status 1 if anything was lost."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.campaign import Campaign
from tests.rigs.faulty_disk import unavailable


def main() -> int:
    """Run a campaign and print its table."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--faults", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no round after so many")
    args = parser.parse_args()
    if unavailable():
        print(f"cannot run here: {unavailable()}", file=sys.stderr)
        return 2
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp())
    campaign = Campaign(folder, args.seed)
    stage = campaign.run(args.faults, 60 * args.minutes)
    print(f"seed {args.seed}, {campaign.rounds} rounds in {time.monotonic() - began:.0f} s, "
          f"{len(campaign.ledger.keys)} notifications received\n")  # fmt: skip
    print(campaign.sums.table())
    print("anew: notified again with the same id by a server that had lost its database")
    print(f"incidents that a server which had lost its database could not resolve: {campaign.ledger.stale}")
    print(f"repeats in rounds in which no answer can have been missing: {campaign.unexplained}")
    for title, found in (("lost", campaign.lost), ("another key", campaign.ledger.another), ("ended", stage.ended)):
        for text in found:
            print(f"{title}: {text}")
    if campaign.lost or campaign.ledger.another or stage.ended or campaign.unexplained:
        print(f"logs and received notifications are in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
