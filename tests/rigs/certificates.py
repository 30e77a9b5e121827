"""Certificates made by the real openssl in a throw-away directory: an authority, and what it signs."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


@dataclass(frozen=True)
class Pair:
    """Files of a certificate and its key."""

    cert: Path
    key: Path


class Authority:
    """Signs certificates. `ca` is its own."""

    def __init__(self, directory: Path, name: str = "ca") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory, self.ca = directory, directory / f"{name}.crt"
        self._key = directory / f"{name}.key"
        use = "keyUsage=critical,keyCertSign,cRLSign"
        _openssl("req", "-x509", *_KEY, "-subj", f"/CN={name}", "-days", "10", "-addext", use, "-keyout", self._key,
                 "-out", self.ca)  # fmt: skip

    def issue(self, name: str, sans: str = "", *, expired: bool = False, to: Pair | None = None) -> Pair:
        """A certificate for `name` with alternative names as openssl writes them ("DNS:x,IP:127.0.0.1")."""
        pair = to or Pair(self.directory / f"{name}.crt", self.directory / f"{name}.key")
        request, fresh = self.directory / f"{name}.csr", Pair(self.directory / "new.crt", self.directory / "new.key")
        more = ("-addext", f"subjectAltName={sans}") if sans else ()
        _openssl("req", "-new", *_KEY, "-subj", f"/CN={name}", *more, "-keyout", fresh.key, "-out", request)
        keys = self.directory / "keys.ext"  # RFC 5280 asks for both, and so does Python from 3.13 on
        keys.write_text("subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n")
        _openssl("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self._key, "-copy_extensions", "copy",
                 "-extfile", keys, "-days", "-1" if expired else "10", "-out", fresh.cert)  # fmt: skip
        fresh.key.replace(pair.key)
        fresh.cert.replace(pair.cert)
        return pair


def _openssl(*words: object) -> None:
    done = subprocess.run(["openssl", *map(str, words)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
