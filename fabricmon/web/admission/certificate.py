"""Expiry and names of a certificate. Pure.

The standard library has no parser for the own certificate, so its validity is read here (RFC 5280, 4.1: the fifth
field of tbsCertificate).
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


def not_after(pem: str) -> float:
    """Expiry (wall time) of the first certificate of a PEM text. ValueError where there is none."""
    start = pem.find(_BEGIN)
    end = pem.find(_END, start)
    if start < 0 or end < 0:
        raise ValueError("no certificate in it")
    der = base64.decodebytes(pem[start + len(_BEGIN) : end].encode("ascii"))
    certificate, _ = _field(der, 0)
    fields, at = _field(certificate, 0)[0], 0
    if fields[:1] == b"\xa0":  # the version, which version 1 leaves out
        _, at = _field(fields, at)
    for _ in range(3):  # serial number, signature algorithm, issuer
        _, at = _field(fields, at)
    validity, _ = _field(fields, at)
    _, second = _field(validity, 0)
    moment, _ = _field(validity, second)
    text = moment.decode("ascii")
    if validity[second] == 0x17:  # UTCTime has two digits of the year: 50 to 99 are the last century's
        text = ("19" if text[:2] >= "50" else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()


def _field(data: bytes, at: int) -> tuple[bytes, int]:
    """The content of the DER element at `at` and where the next one begins. ValueError for a broken one."""
    if at + 2 > len(data):
        raise ValueError("a broken certificate")
    length, start = data[at + 1], at + 2
    if length & 0x80:
        size = length & 0x7F
        length, start = int.from_bytes(data[start : start + size]), start + size
    if not length or start + length > len(data):
        raise ValueError("a broken certificate")
    return data[start : start + length], start + length


def names(certificate: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Subject alternative names (DNS, IP address, e-mail, URI) of a peer's certificate as `ssl` gives it, then its
    common name. Empty without a certificate."""
    if not certificate:
        return ()
    found = [str(value) for _, value in certificate.get("subjectAltName", ())]
    common = [str(v) for part in certificate.get("subject", ()) for k, v in part if k == "commonName"]
    return tuple(dict.fromkeys([*found, *common]))


def alternative_names(certificate: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Subject alternative names alone."""
    return tuple(str(value) for _, value in (certificate or {}).get("subjectAltName", ()))
