"""The audit of the lock files: what it stops, and that it needs no network."""

import json
import threading
import urllib.request
from datetime import date
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from requirements import audit
from requirements.audit import ADVISORIES, LIST, is_affected, main, problems, read_advisories, summary
from requirements.pins import Pin

HASH = ("a" * 64,)
RELEASES = st.lists(st.integers(0, 12), min_size=1, max_size=3).map(lambda numbers: ".".join(map(str, numbers)))


def record(*events: dict[str, str], name: str = "left-pad", ecosystem: str = "PyPI", **fields: Any) -> audit.Record:
    ranges = [{"type": "ECOSYSTEM", "events": list(events)}] if events else []
    affected = {"package": {"ecosystem": ecosystem, "name": name}, "ranges": ranges, "versions": fields.pop("versions", [])}
    return {"id": "TEST-1", "summary": "reads minds", "affected": [affected], **fields}


@pytest.mark.parametrize(
    ("events", "version", "expected"),
    [
        ([{"introduced": "0"}, {"fixed": "1.2"}], "1.1.9", True),
        ([{"introduced": "0"}, {"fixed": "1.2"}], "1.2", False),
        ([{"introduced": "0"}, {"fixed": "1.2"}], "0.dev0", True),
        ([{"introduced": "1.2"}], "1.2.0", True),
        ([{"introduced": "1.2"}], "1.1", False),
        ([{"introduced": "1.0"}, {"last_affected": "1.2"}], "1.2", True),
        ([{"introduced": "1.0"}, {"last_affected": "1.2"}], "1.2.1", False),
        ([{"introduced": "2.0"}, {"fixed": "2.5"}, {"introduced": "0"}, {"fixed": "1.4"}], "2.1", True),
        ([{"introduced": "2.0"}, {"fixed": "2.5"}, {"introduced": "0"}, {"fixed": "1.4"}], "1.5", False),
        ([{"introduced": "1.0"}, {"fixed": "1.10"}], "1.9", True),  # versions, not strings
        ([{"introduced": "1.0"}, {"fixed": "1.2"}, {"introduced": "1.2"}], "1.2", True),
    ],
)
def test_a_range_says_which_versions_are_affected(events: list[dict[str, str]], version: str, expected: bool) -> None:
    assert expected == is_affected(record(*events), "left-pad", version)


@given(st.lists(RELEASES, min_size=2, max_size=2, unique_by=Version).map(lambda bounds: sorted(bounds, key=Version)), RELEASES)
def test_a_range_is_what_pip_means_by_it(bounds: list[str], version: str) -> None:
    introduced, fixed = bounds
    expected = SpecifierSet(f">={introduced},<{fixed}").contains(version)
    assert expected == is_affected(record({"introduced": introduced}, {"fixed": fixed}), "left-pad", version)


def test_listed_versions_are_affected() -> None:
    listed = record(versions=["1.82.7", "1.82.8", "not a version"])
    assert [False, True, True, False] == [is_affected(listed, "left-pad", version) for version in ("1.82.6", "1.82.7", "1.82.8", "1.82.9")]


def test_names_are_compared_as_pip_does() -> None:
    assert is_affected(record({"introduced": "0"}, name="Left_Pad"), "left-pad", "1")


@pytest.mark.parametrize(
    "other",
    [
        record({"introduced": "0"}, name="right-pad"),
        record({"introduced": "0"}, ecosystem="npm"),
        record({"introduced": "0"}, withdrawn="2026-01-01T00:00:00Z"),
    ],
)
def test_another_package_another_ecosystem_or_a_withdrawn_record_affects_nothing(other: audit.Record) -> None:
    assert not is_affected(other, "left-pad", "1")


def test_an_affected_pin_is_named_with_its_line_and_its_fix() -> None:
    found = list(problems([Pin("left-pad", "1.0", "lock.txt:7", HASH)], [record({"introduced": "0"}, {"fixed": "1.2"})]))
    assert ["lock.txt:7: left-pad 1.0: TEST-1: reads minds (fixed in 1.2)"] == found


def test_a_pin_without_a_hash_is_a_problem() -> None:
    (found,) = problems([Pin("left-pad", "1.0", "lock.txt:7")], [])
    assert found.startswith("lock.txt:7: left-pad 1.0 has no hash")


def test_the_lock_files_pass_without_a_network(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(urllib.request, "urlopen", lambda *_, **__: pytest.fail("asked a network"))
    assert 0 == main([]), capsys.readouterr().out


@pytest.mark.parametrize("version", ["1.82.7", "1.82.8", "1.107.0"])
def test_a_compromised_litellm_fails(version: str) -> None:
    assert list(problems([Pin("litellm", version, "requirements/all.txt:1", HASH)], read_advisories(ADVISORIES)))


def test_an_advisory_on_a_version_that_is_pinned_fails_unless_it_is_ignored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "TEST-1.json").write_text(json.dumps(record({"introduced": "0"}, name="litellm")))
    (tmp_path / "TEST-2.json").write_text(json.dumps(record({"introduced": "0"}, name="nobody") | {"id": "TEST-2"}))
    assert 1 == main(["--advisories", str(tmp_path)])
    assert "litellm 1.106.0: TEST-1: reads minds" in capsys.readouterr().out
    assert 0 == main(["--advisories", str(tmp_path), "--ignore", "TEST-1"])


def test_no_list_is_no_audit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert 1 == main(["--advisories", str(tmp_path)])
    assert "nothing was audited" in capsys.readouterr().out


def test_an_old_list_is_a_warning_and_breaks_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "TEST-1.json").write_text(json.dumps(record({"introduced": "0"})))
    (tmp_path / LIST).write_text('compared_on = 2020-01-01\nwith = "memory"\ncomplete = true\n')
    assert 0 == main(["--advisories", str(tmp_path)])
    assert "warning: the list is " in capsys.readouterr().out
    assert "warning" not in summary(1, 1, tmp_path, date(2020, 2, 1))


def test_every_record_of_the_list_is_named_after_its_id_and_says_where_it_is_from() -> None:
    for path in sorted(ADVISORIES.glob("*.json")):
        found = json.loads(path.read_text())
        assert path.stem == found["id"]
        assert all(entry["url"].startswith("https://") for entry in found["references"]), path
        assert found["references"], path
        assert isinstance(is_affected(found, found["affected"][0]["package"]["name"], "1.0"), bool)


class Service(BaseHTTPRequestHandler):
    """Speaks the interface of osv.dev's query: two pages on litellm, nothing on other packages."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer: dict[str, Any] = {}
        if asked["package"] == {"ecosystem": "PyPI", "name": "litellm"}:
            page = asked.get("page_token", "")
            found = record(
                {"introduced": "0"},
                {"fixed": "1.0"},
                name="litellm",
                details="long",
                versions=["0.1"],
                references=[{"type": "ADVISORY", "url": "https://x"}],
            )
            answer = {"vulns": [found], "next_page_token": "more"} if not page else {"vulns": [found | {"id": f"TEST-{page}"}]}
            answer["vulns"].append(found | {"id": "TEST-GONE", "withdrawn": "2026-01-01T00:00:00Z"})
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def test_a_refresh_replaces_the_list_by_what_the_service_knows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "STALE-1.json").write_text("{}")
    (tmp_path / "GROUNDWIRE-9.json").write_text(json.dumps(record({"introduced": "0"}, name="nobody") | {"id": "GROUNDWIRE-9"}))
    with HTTPServer(("127.0.0.1", 0), Service) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        status = main(["--advisories", str(tmp_path), "--refresh", "--service", f"http://127.0.0.1:{server.server_port}/v1/query"])
        server.shutdown()
        thread.join()
    assert (0, ["GROUNDWIRE-9.json", "TEST-1.json", "TEST-more.json"]) == (status, sorted(path.name for path in tmp_path.glob("*.json")))
    kept = {
        "package": {"ecosystem": "PyPI", "name": "litellm"},
        "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "1.0"}]}],
    }
    expected = {"id": "TEST-1", "summary": "reads minds", "affected": [kept], "references": [{"type": "ADVISORY", "url": "https://x"}]}
    assert expected == json.loads((tmp_path / "TEST-1.json").read_text())
    assert "selection" not in capsys.readouterr().out
