"""A headless Chromium that tests drive over a pipe: no driver, no port, no network."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe"]
FLAGS += ["--disable-background-networking", "--disable-component-update", "--no-first-run"]
FLAGS += ["--disable-dev-shm-usage", "--force-device-scale-factor=1"]


def chromium() -> str | None:
    """Find a browser: $ASSAY_BROWSER, or one on the path (scripts/setup --browser)."""
    given = os.environ.get("ASSAY_BROWSER")
    return given or next((found for name in PROGRAMS if (found := shutil.which(name))), None)


class Browser:
    """One page of one browser. Raises TimeoutError where it does not answer."""

    def __init__(self, program: str, profile: Path, timeout: float = 300) -> None:
        self.timeout = timeout
        self.events: list[dict[str, Any]] = []
        self._buffer = b""
        self._number = 0
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()

        def give_pipes() -> None:  # Chromium reads from 3 and writes to 4
            reading, writing = os.dup(to_read), os.dup(to_write)
            os.dup2(reading, 3)
            os.dup2(writing, 4)

        self._process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=give_pipes,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._session = ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)

    def _message(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._from], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            part = os.read(self._from, 1 << 20)
            if not part:
                raise TimeoutError("the browser is gone")
            self._buffer += part
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        request: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            request["sessionId"] = self._session
        os.write(self._to, json.dumps(request).encode() + b"\0")
        deadline = time.monotonic() + self.timeout
        while True:
            message = self._message(deadline)
            if message.get("id") == self._number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                result: dict[str, Any] = message["result"]
                return result
            self.events.append(message)

    def open(self, path: Path, width: int = 1200, height: int = 900, dark: bool = False) -> None:
        self.events.clear()
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.wait("document.readyState === 'complete'")

    def evaluate(self, expression: str) -> Any:
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until an expression of the page is true."""
        deadline = time.monotonic() + self.timeout
        while not self.evaluate(condition):
            if time.monotonic() > deadline:
                raise TimeoutError(f"never true in the page: {condition}")
            time.sleep(0.05)

    def errors(self) -> list[str]:
        """Return the errors that the page threw or logged, including violations of its policy."""
        found: list[str] = []
        for event in self.events:
            inner = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(json.dumps(inner["exceptionDetails"])[:2000])
            elif event.get("method") == "Log.entryAdded" and inner["entry"]["level"] == "error":
                found.append(inner["entry"]["text"])
            elif event.get("method") == "Runtime.consoleAPICalled" and inner["type"] in ("error", "assert"):
                found.append(json.dumps(inner["args"])[:2000])
        return found

    def requests(self) -> list[str]:
        """Return the addresses that the page requested, without its own."""
        sent = [
            e["params"]["request"]["url"]
            for e in self.events
            if e.get("method") == "Network.requestWillBeSent"
        ]
        return [url for url in sent[1:] if not url.startswith("data:")]

    def screenshot(self, path: Path, whole: bool = False) -> None:
        result = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(result["data"]))
