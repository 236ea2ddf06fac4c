"""What an installation takes on disk."""

from pathlib import Path

from requirements.sizes import disk_megabytes


def test_the_installer_is_not_counted(tmp_path: Path) -> None:
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    for folder in (tmp_path / "bin", packages / "uvloop"):
        folder.mkdir(parents=True)
        (folder / "python").write_bytes(b"x" * 500_000)
    alone = disk_megabytes(tmp_path)
    (packages / "uv-0.13.9.dist-info").mkdir()
    for path in (tmp_path / "bin" / "uv", tmp_path / "bin" / "uvx", packages / "uv-0.13.9.dist-info" / "RECORD"):
        path.write_bytes(b"x" * 2_000_000)
    assert alone == disk_megabytes(tmp_path) > 0.9


def test_a_file_with_two_names_counts_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 500_000)
    alone = disk_megabytes(tmp_path)
    (tmp_path / "b").hardlink_to(tmp_path / "a")
    assert alone == disk_megabytes(tmp_path)
