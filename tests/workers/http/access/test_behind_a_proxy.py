"""A proxy in front reaches the service over a socket, and may take a prefix off the path."""

import re
import stat

import pytest
from service_world import world_in

from neardup_workers.doing.http.access.tokens import tokens_of
from neardup_workers.doing.http.server import bound
from neardup_workers.outside.process.exits import Failure
from neardup_workers.outside.settings.serve import ServeSettings


def test_a_socket_is_a_file_for_the_user_and_its_group(tmp_path):
    """It needs no token. A second service is refused; a file that a process has left is replaced."""
    host = f"unix:{tmp_path / 'socket'}"
    assert tokens_of(ServeSettings(host=host)) is None
    with bound(host, 0) as address:
        address.listen()
        assert stat.S_IMODE((tmp_path / "socket").stat().st_mode) == 0o660
        with pytest.raises(Failure, match="another process listens there"):
            bound(host, 0)
    with bound(host, 0) as again:
        assert again.getsockname() == str(tmp_path / "socket")
    (tmp_path / "file").write_text("of someone")
    with pytest.raises(Failure, match="choose another"):
        bound(f"unix:{tmp_path / 'file'}", 0)
    assert (tmp_path / "file").read_text() == "of someone"


def test_the_page_names_no_path_from_the_root(tmp_path):
    """So it works under a prefix: its files, its links, and its requests."""
    with world_in(tmp_path) as world:
        for path in ("/", "/docs"):
            html = world.ask("GET", path).text
            assert re.findall(r'(?:href|src)="/[^"]*"', html) == []
            assert re.findall(r'(?:href|src)="(page/[^"]*)"', html)
        assert "fetch(collected(path).slice(1)," in world.ask("GET", "/page/api.js").text
