"""TLS contexts from files: the listener's by its web configuration, a client's by its options."""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import Iterator

from fabricmon.runtime import trust
from fabricmon.web import ciphers
from fabricmon.web.admission.certificate import not_after
from fabricmon.web.buffers import shrink
from fabricmon.web.file import TlsServer

_ASKED = {
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}


def server_context(config: TlsServer) -> tuple[ssl.SSLContext, float]:
    """The context, and the expiry of its certificate (wall time). ValueError names the invalid file."""
    shrink()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ciphers.VERSIONS[config.min_version]
    context.maximum_version = ciphers.VERSIONS[config.max_version]
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    if config.prefer_server_cipher_suites:
        context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    else:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    chosen = [ciphers.SUITES[name] for name in config.cipher_suites if name in ciphers.SUITES]
    if chosen:
        context.set_ciphers(":".join(chosen))
    for curve in config.curve_preferences[:1]:
        context.set_ecdh_curve(ciphers.CURVES[curve])
    context.set_alpn_protocols(["http/1.1"])
    certificate = config.cert or trust.read_pem(config.cert_file)
    _own(context, config.cert, config.cert_file, config.key, config.key_file)
    mode = _ASKED.get(config.client_auth_type)
    if mode is not None:
        authority = config.client_ca or trust.read_pem(config.client_ca_file)
        trust.add(context, authority, config.client_ca_file or "client_ca")
        context.verify_mode = mode
    try:
        return context, not_after(certificate)
    except ValueError as error:
        raise ValueError(f"{config.cert_file or 'cert'}: {error}") from error


def client_context(ca_file: str, cert_file: str, key_file: str) -> ssl.SSLContext:
    """A context that verifies the server by `ca_file` ("": as the system does) and shows `cert_file` where asked.

    ValueError names the invalid file.
    """
    context = trust.trusting(ca_file)
    if cert_file:
        _own(context, "", cert_file, "", key_file or cert_file)
    return context


def pinned_context(server_file: str, cert_file: str, key_file: str) -> ssl.SSLContext:
    """A client's context that takes exactly the certificates of `server_file` and no name, for a server on this machine
    whose own file that is, and shows `cert_file` where asked.

    ValueError names the invalid file.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    trust.add(context, trust.read_pem(server_file), server_file)
    if cert_file:
        _own(context, "", cert_file, "", key_file or cert_file)
    return context


def _own(context: ssl.SSLContext, cert: str, cert_file: str, key: str, key_file: str) -> None:
    def refuse() -> str:
        name = key_file or cert_file or "key"
        raise ValueError(f"{name}: encrypted keys are not supported")

    with _file(cert, cert_file) as certificate, _file(key, key_file) as secret:
        try:
            context.load_cert_chain(certificate, secret, password=refuse)
        except ssl.SSLError as error:
            names = f"{cert_file or 'cert'} and {key_file or 'key'}"
            if "KEY_VALUES_MISMATCH" in str(error):
                raise ValueError(f"{names}: the key is not that of the certificate") from error
            raise ValueError(f"{names}: {trust.fault(error)}") from error
        except OSError as error:
            # The standard library does not distinguish the two.
            for path in (certificate, secret):
                trust.read_pem(path)
            raise ValueError(f"{cert_file or 'cert'}: {error.strerror}") from error


@contextlib.contextmanager
def _file(pem: str, path: str) -> Iterator[str]:
    """`path`, or for PEM text a file of it that is only in memory: OpenSSL reads keys from files."""
    if not pem:
        yield path
        return
    number = os.memfd_create("pem")
    try:
        os.write(number, pem.encode())
        yield f"/proc/self/fd/{number}"
    finally:
        os.close(number)
