"""A connection is used once: the server may be closing it while the client thinks it open."""

from __future__ import annotations

import asyncio
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from whale_vllm.client import Replica


def test_a_connection_is_used_once() -> None:
    """vLLM closes it after 5 s (VLLM_HTTP_TIMEOUT_KEEP_ALIVE), a batch may take as long."""
    ports: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            ports.append(self.client_address[1])
            body = b'{"version": "0.32.0"}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()

    async def work() -> None:
        one = Replica(f"http://127.0.0.1:{server.server_address[1]}", timeout=5.0)
        await one.version()
        await one.version()
        await one.close()

    asyncio.run(work())
    server.shutdown()
    server.server_close()
    first, second = ports
    assert first != second
