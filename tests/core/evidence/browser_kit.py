"""A real browser, driven over two pipes by Chrome's debugging protocol: no package is needed."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SECONDS = 60.0


def find_browser() -> str | None:
    """Return a browser's path, None where there is none."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


class Browser:
    """One tab."""

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back = to, back
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.errors: list[str] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            got = self._receive()
            if got.get("id") == self._number:
                assert "error" not in got, got
                result: dict[str, Any] = got["result"]
                return result

    def open(self, path: Path, width: int = 1200, height: int = 900) -> float:
        """Open a file at a width; return the seconds until it was loaded."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        begun = time.monotonic()
        self.ask("Page.navigate", url=path.resolve().as_uri())
        while self.value("document.readyState") != "complete":
            time.sleep(0.02)
        return time.monotonic() - begun

    def value(self, expression: str) -> Any:
        """Return what a JavaScript expression gives."""
        got = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in got, got
        return got["result"].get("value")

    def click(self, selector: str) -> None:
        """Click, as a finger would, on the first element that fits."""
        found = f"document.querySelector({json.dumps(selector)})"
        self.value(f"{found}.scrollIntoView({{block: 'center'}})")
        box = self.value(f"(r => [r.x + 12, r.y + r.height / 2])({found}.getBoundingClientRect())")
        for kind in ("mousePressed", "mouseReleased"):
            self.ask(
                "Input.dispatchMouseEvent",
                type=kind,
                x=box[0],
                y=box[1],
                button="left",
                clickCount=1,
            )

    def pdf(self, path: Path) -> None:
        """Print the page."""
        path.write_bytes(
            base64.b64decode(self.ask("Page.printToPDF", printBackground=True)["data"])
        )

    def screenshot(self, path: Path) -> None:
        """Take a picture of what is seen."""
        path.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot")["data"]))

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            assert select.select([self._back], [], [], SECONDS)[0], "the browser says nothing"
            got = os.read(self._back, 1 << 20)
            assert got, "the browser is gone"
            self._buffer += got
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        method, given = message.get("method", ""), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(str(given))
        elif method == "Log.entryAdded" and given["entry"]["level"] in ("error", "warning"):
            self.errors.append(str(given["entry"]))
        elif method == "Network.requestWillBeSent":
            url = str(given["request"]["url"])
            if not url.startswith(("file:", "about:")):
                self.errors.append(f"a request to {url}")
        elif method == "Page.javascriptDialogOpening":
            self.errors.append(f"a dialog: {given}")
        return message


@contextmanager
def browser(program: str, profile: Path) -> Iterator[Browser]:
    """Start a browser without a window, and end it."""
    ours, to = os.pipe(), os.pipe()

    def pipes() -> None:
        os.dup2(to[0], 3)
        os.dup2(ours[1], 4)

    process = subprocess.Popen(
        [
            program,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--remote-debugging-pipe",
            f"--user-data-dir={profile}",
        ],
        pass_fds=(3, 4),
        preexec_fn=pipes,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to[0])
    os.close(ours[1])
    try:
        yield Browser(to[1], ours[0])
    finally:
        process.terminate()
        process.wait(timeout=SECONDS)
        os.close(to[1])
        os.close(ours[0])
