"""uv takes over what pip is told: an index with a certificate of a company's own, read from pip's settings alone."""

import base64
import hashlib
import http.server
import io
import os
import ssl
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import BinaryIO

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tools import uv

ROOT = Path(__file__).parents[2]
WHEEL = "tidal_probe-1.0-py3-none-any.whl"
NOT_PASSED_ON = ("PIP_", "UV_", "SSL_", "NIX_", "REQUESTS_", "CURL_")


def wheel(path: Path) -> None:
    """The smallest there is."""
    about = "tidal_probe-1.0.dist-info"
    files = {
        "tidal_probe.py": b"",
        f"{about}/METADATA": b"Metadata-Version: 2.1\nName: tidal-probe\nVersion: 1.0\n",
        f"{about}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}\n"
        for name, data in files.items()
    )
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in (files | {f"{about}/RECORD": f"{record}{about}/RECORD,,\n".encode()}).items():
            archive.writestr(name, data)


def certificate(into: Path) -> tuple[Path, Path]:
    """Of 127.0.0.1, signed by itself: what no list of known authorities has. Certificate and key."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "proxy")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    of_server, of_key = into / "company.pem", into / "company.key"
    of_server.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    of_key.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return of_server, of_key


class Index(http.server.SimpleHTTPRequestHandler):
    """A directory's files, for who gives the password."""

    def send_head(self) -> "io.BytesIO | BinaryIO | None":
        if self.headers.get("Authorization") == "Basic " + base64.b64encode(b"me:secret").decode():
            return super().send_head()
        self.send_response(401)
        self.end_headers()
        return None

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def serving(root: Path, certified: tuple[Path, Path]) -> Iterator[int]:
    """A port of the loopback, with TLS."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Index, directory=str(root)))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certified)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("given", ["pip's file", "PIP_ variables"])
def test_an_index_of_a_company_is_read_from_pips_settings(tmp_path: Path, given: str) -> None:
    (page := tmp_path / "index" / "simple" / "tidal-probe").mkdir(parents=True)
    (page / "index.html").write_text(f'<a href="/{WHEEL}">{WHEEL}</a>')
    wheel(tmp_path / "index" / WHEEL)
    certified = certificate(tmp_path)
    environ = {name: value for name, value in os.environ.items() if not name.startswith(NOT_PASSED_ON)}
    with serving(tmp_path / "index", certified) as port:
        index = f"https://me:secret@127.0.0.1:{port}/simple"
        if given == "pip's file":
            settings = tmp_path / "pip.conf"
            settings.write_text(f"[global]\nindex-url = {index}\ncert = {certified[0]}\n")
            environ |= {"PIP_CONFIG_FILE": str(settings)}
        else:
            environ |= {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": index, "PIP_CERT": str(certified[0])}
        into = ("--python", sys.executable, "--target", str(tmp_path / "into"))
        command = ["pip", "install", "--no-cache", *into, "tidal-probe"]
        subprocess.run(
            [sys.executable, ROOT / "tools" / "uv.py", *command], env=environ, cwd=tmp_path, check=True, timeout=120
        )
    assert (tmp_path / "into" / "tidal_probe.py").exists()


def test_a_variable_counts_for_more_than_a_file_and_a_command_for_more_than_all() -> None:
    listed = (
        ":env:.index-url='https://env/'\nglobal.index-url='https://global/'\ninstall.index-url='https://install/'\n"
    )
    assert uv.pip_settings(listed) == {"index-url": "https://env/"}
    assert uv.pip_settings("global.cert='/a'\ninstall.cert='/b'\ndownload.cert='/c'\n") == {"cert": "/b"}


def test_lists_are_told_as_uv_reads_them() -> None:
    settings = {"extra-index-url": "https://a/\nhttps://b/", "find-links": "/a /b", "trusted-host": "a\nb:8443"}
    told = uv.uv_variables(settings, {})
    assert told["UV_INDEX"] == "https://a/ https://b/"
    assert told["UV_INDEX_STRATEGY"] == "unsafe-best-match"
    assert told["UV_FIND_LINKS"] == "/a,/b"
    assert told["UV_INSECURE_HOST"] == "a b:8443"


def test_what_is_set_for_uv_stays() -> None:
    told = uv.uv_variables({"index-url": "https://a/"}, {"UV_DEFAULT_INDEX": "https://b/", "UV_SYSTEM_CERTS": "false"})
    assert told == {}


def test_a_proxy_of_pips_is_taken_unless_the_environment_names_one() -> None:
    assert uv.uv_variables({"proxy": "http://p:3128"}, {})["ALL_PROXY"] == "http://p:3128"
    assert "ALL_PROXY" not in uv.uv_variables({"proxy": "http://p:3128"}, {"HTTPS_PROXY": "http://q:3128"})


def test_the_systems_certificates_are_trusted_unless_pip_names_others() -> None:
    assert uv.uv_variables({}, {}) == {"UV_SYSTEM_CERTS": "true"}
    assert uv.uv_variables({"cert": "/company.pem"}, {}) == {"SSL_CERT_FILE": "/company.pem"}
