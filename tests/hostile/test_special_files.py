"""Pipes, sockets and devices where rows are looked for: passed over in folders, refused by name, never waited for."""

import os
import socket

import pytest

from rowmill import Dataset
from rowmill.errors import DataFileError


@pytest.mark.timeout(30)
def test_a_folder_with_a_pipe_and_a_socket(folder):
    rows = Dataset(folder).num_rows
    os.mkfifo(folder / "pipe.parquet")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "socket.parquet"))
        assert Dataset(folder).num_rows == rows
        assert Dataset(folder / "*.parquet").num_rows == rows
        assert Dataset(str(folder.parent / "*")).num_rows == rows
        for name in ("pipe.parquet", "socket.parquet"):
            with pytest.raises(DataFileError, match=f"{name} is a pipe, a socket or a device"):
                Dataset(folder / name)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("engine", ["parquet", "csv", "ipc"])
def test_a_device(folder, engine):
    with pytest.raises(DataFileError, match="/dev/zero is a pipe, a socket or a device"):
        Dataset(["/dev/zero"], engine=engine)


def test_a_link_to_nowhere_is_an_error(folder):
    (folder / "gone.parquet").symlink_to(folder / "nothing.parquet")
    with pytest.raises(DataFileError, match=r"gone\.parquet"):
        Dataset(folder)
