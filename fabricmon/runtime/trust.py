"""Which servers a client of TLS trusts: by the system's CA certificates, or by those of a file.

A file is checked alike on every version of Python, and as Prometheus, Alertmanager and curl check it. Python's own
default differs: from 3.13 on it also requires extensions of RFC 5280 that many private CAs lack (docs/security.md).
"""

from __future__ import annotations

import ssl

MAX_PEM = 1 << 20  # bytes of a certificate or key file


def trusting(ca_file: str) -> ssl.SSLContext:
    """A client's context that trusts the certificates of `ca_file`, or with "" those of the system; TLS 1.2 at least.

    Each certificate of the file is trusted, also one that another CA signed. ValueError names an invalid file.
    """
    if not ca_file:
        return ssl.create_default_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    add(context, read_pem(ca_file), ca_file)
    return context


def add(context: ssl.SSLContext, pem: str, name: str) -> None:
    """Trust certificates as well. ValueError names their origin where there are none."""
    try:
        context.load_verify_locations(cadata=pem.encode("ascii", "ignore").decode())  # comments may have any encoding
    except (ssl.SSLError, ValueError) as error:
        raise ValueError(f"{name}: no certificates to trust in it ({fault(error)})") from error


def read_pem(path: str) -> str:
    """The text of a file of certificates or keys. ValueError names one that cannot be read or is too large."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_PEM + 1)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > MAX_PEM:
        raise ValueError(f"{path}: larger than {MAX_PEM} bytes")
    return data.decode("latin-1")  # any encoding can be read so; what counts is ASCII


def fault(error: Exception) -> str:
    """OpenSSL's reason for an error, without the place in its sources."""
    reason = getattr(error, "reason", None)
    return str(reason).replace("_", " ").lower() if reason else str(error).partition(" (_ssl")[0]
