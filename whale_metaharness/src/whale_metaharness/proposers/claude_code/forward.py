"""Runs inside the jail, as plain Python without any package: start the agent, carry its requests.

    forward.py SOCKET PORT COMMAND…

Connections to 127.0.0.1:PORT go to the Unix socket, which leads to the proxy outside. When standard
input ends, because the trusted side has gone away, the agent is killed. What it started ends with
it; its exit status is this one's.
"""

import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
import threading

FILE_BYTES = 64 << 20
CHUNK = 1 << 16


def carry(source: socket.socket, target: socket.socket) -> None:
    """Copy bytes until ``source`` ends, then tell ``target`` so."""
    with contextlib.suppress(OSError):
        while data := source.recv(CHUNK):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def connect(client: socket.socket, path: str) -> None:
    """Join one connection to the Unix socket ``path`` until both sides have ended."""
    with client, socket.socket(socket.AF_UNIX) as proxy:
        proxy.connect(path)
        back = threading.Thread(target=carry, args=(proxy, client), daemon=True)
        back.start()
        carry(client, proxy)
        back.join()


def serve(listener: socket.socket, path: str) -> None:
    """Take connections for ever."""
    while True:
        client, _ = listener.accept()
        threading.Thread(target=connect, args=(client, path), daemon=True).start()


def main(path: str, port: str, *command: str) -> int:
    """Run the agent and return its exit status."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    listener = socket.create_server(("127.0.0.1", int(port)))
    threading.Thread(target=serve, args=(listener, path), daemon=True).start()
    agent = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def watch() -> None:
        while os.read(0, CHUNK):
            pass
        agent.kill()

    threading.Thread(target=watch, daemon=True).start()
    status = agent.wait()
    with contextlib.suppress(OSError):
        os.kill(-1, signal.SIGKILL)  # what the agent left behind: all else in this namespace
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
