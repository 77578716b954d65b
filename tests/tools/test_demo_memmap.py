"""The demonstration of memory mapping prints its table, draws its picture and leaves nothing else behind."""

import os

import pytest

pytest.importorskip("matplotlib")


def test_table_and_picture(tmp_path, capsys):
    from rowmill.tools.demo_memmap import main

    assert main(["--output", str(tmp_path), "--scale", "0.02"]) == 0
    shown = capsys.readouterr().out
    assert "images, mapped" in shown and "table, mapped" in shown and "pays after" in shown
    assert (tmp_path / "memmap.png").read_bytes().startswith(b"\x89PNG")
    assert os.listdir(tmp_path) == ["memmap.png"]


def test_where_wrapping_has_paid():
    from rowmill.tools.demo_memmap import Contest

    assert Contest("", 1, 3.0, (2.0, 4.0), (1.0, 1.0)).break_even == pytest.approx(1 + 2 / 3)
    assert Contest("", 1, 6.0, (2.0, 4.0), (1.0, 1.0)).break_even == pytest.approx(3)
    assert Contest("", 1, 3.0, (1.0,), (1.0,)).break_even == float("inf")
