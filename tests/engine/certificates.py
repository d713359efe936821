"""Throw-away certificates, each signed by an authority of its own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def _name(of: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, of)])


def _signed(
    of: str, by: str, key: ec.EllipticCurvePrivateKey, with_: ec.EllipticCurvePrivateKey, ca: bool
) -> bytes:
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(_name(of))
        .issuer_name(_name(by))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .sign(with_, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM)


def write(folder: Path) -> Path:
    """``ca.pem``, ``cert.pem`` and ``key.pem``, as ``--tls`` takes them."""
    folder.mkdir()
    authority, own = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    (folder / "ca.pem").write_bytes(
        _signed("authority", "authority", authority, authority, ca=True)
    )
    (folder / "cert.pem").write_bytes(_signed("das", "authority", own, authority, ca=False))
    key = own.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "key.pem").write_bytes(key)
    (folder / "key.pem").chmod(0o600)
    return folder
