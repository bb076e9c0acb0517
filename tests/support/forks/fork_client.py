"""Stands for ``python``: ``fork_client.py SOCKET ARGUMENTS`` is a process that a server of forks starts.

The process gets the folder, the environment and the standard streams of this one, and this one ends as it does. It
imports as little as it can: its start is what remains of a start.
"""

import marshal
import os
import socket
import sys

HEAD_BYTES = 8


def main() -> int:
    """Ask the server, and wait for the exit code; after a signal it is 128 and the number, as in shells."""
    asked = marshal.dumps((os.getcwd(), sys.argv[2:], dict(os.environ)))
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(sys.argv[1])
        socket.send_fds(server, [len(asked).to_bytes(HEAD_BYTES, "big")], [0, 1, 2])
        server.sendall(asked)
        code = server.recv(1)
    return code[0] if code else 255


if __name__ == "__main__":
    os._exit(main())
