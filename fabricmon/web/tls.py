"""TLS contexts from files: the listener's by its web configuration, a client's by its options."""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import Iterator

from fabricmon.web import ciphers
from fabricmon.web.buffers import shrink
from fabricmon.web.certificate import not_after
from fabricmon.web.file import TlsServer

MAX_PEM = 1 << 20  # bytes of a certificate or key file

_ASKED = {
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}


def server_context(config: TlsServer) -> tuple[ssl.SSLContext, float]:
    """The context, and the wall time at which its certificate ends. ValueError says what cannot be used and why."""
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
    certificate = config.cert or _text(config.cert_file)
    _own(context, config.cert, config.cert_file, config.key, config.key_file)
    mode = _ASKED.get(config.client_auth_type)
    if mode is not None:
        _trust(context, config.client_ca or _text(config.client_ca_file), config.client_ca_file or "client_ca")
        context.verify_mode = mode
    try:
        return context, not_after(certificate)
    except ValueError as error:
        raise ValueError(f"{config.cert_file or 'cert'}: {error}") from error


def client_context(ca_file: str, cert_file: str, key_file: str) -> ssl.SSLContext:
    """A context that verifies the server by `ca_file` ("": as the system does) and shows `cert_file` where asked.

    ValueError says which file cannot be used and why.
    """
    context = ssl.create_default_context() if not ca_file else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca_file:
        _trust(context, _text(ca_file), ca_file)
    if cert_file:
        _own(context, "", cert_file, "", key_file or cert_file)
    return context


def pinned_context(server_file: str, cert_file: str, key_file: str) -> ssl.SSLContext:
    """A client's context that takes exactly the certificates of `server_file` and no name, for a server on this machine
    whose own file that is, and shows `cert_file` where asked.

    ValueError says which file cannot be used and why.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    _trust(context, _text(server_file), server_file)
    if cert_file:
        _own(context, "", cert_file, "", key_file or cert_file)
    return context


def _text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_PEM + 1)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > MAX_PEM:
        raise ValueError(f"{path}: larger than {MAX_PEM} bytes")
    return data.decode("latin-1")  # PEM may have comments in any encoding around it


def _trust(context: ssl.SSLContext, pem: str, name: str) -> None:
    try:
        context.load_verify_locations(cadata=pem)
    except (ssl.SSLError, ValueError) as error:
        raise ValueError(f"{name}: no certificates to trust in it ({_reason(error)})") from error


def _own(context: ssl.SSLContext, cert: str, cert_file: str, key: str, key_file: str) -> None:
    def refuse() -> str:
        name = key_file or cert_file or "key"
        raise ValueError(f"{name}: the key is protected by a password, which nobody is here to type")

    with _file(cert, cert_file) as certificate, _file(key, key_file) as secret:
        try:
            context.load_cert_chain(certificate, secret, password=refuse)
        except ssl.SSLError as error:
            names = f"{cert_file or 'cert'} and {key_file or 'key'}"
            if "KEY_VALUES_MISMATCH" in str(error):
                raise ValueError(f"{names}: the key is not that of the certificate") from error
            raise ValueError(f"{names}: {_reason(error)}") from error
        except OSError as error:
            # The standard library does not say which of the two it was.
            for path in (certificate, secret):
                _text(path)
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


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    return str(reason).replace("_", " ").lower() if reason else str(error).partition(" (_ssl")[0]
