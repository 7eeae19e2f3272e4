# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium that tests drive by the DevTools protocol over a pipe. It finds no network:
every host name is unknown to it."""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--remote-debugging-pipe",
    "--hide-scrollbars",
]


class Browser:
    """One tab. Every call waits for its answer."""

    def __init__(self):
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, self._to = os.pipe()
        self._from, from_browser = os.pipe()

        def give_pipes():  # Chromium reads file 3 and writes file 4
            os.dup2(os.dup(to_browser), 3)
            os.dup2(os.dup(from_browser), 4)

        self._process = subprocess.Popen(
            [CHROMIUM, *FLAGS, f"--user-data-dir={self._profile.name}"],
            preexec_fn=give_pipes,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._rest, self._last, self._session, self.errors = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def close(self):
        self._session = None
        self.call("Browser.close")
        self._process.wait()
        os.close(self._to)
        os.close(self._from)
        self._profile.cleanup()

    def _read(self) -> dict:
        while b"\0" not in self._rest:
            part = os.read(self._from, 1 << 20)
            if not part:
                raise RuntimeError("chromium has ended")
            self._rest += part
        text, self._rest = self._rest.split(b"\0", 1)
        message = json.loads(text)
        if message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(message["params"]["exceptionDetails"]["exception"]["description"])
        if (
            message.get("method") == "Log.entryAdded"
            and message["params"]["entry"]["level"] == "error"
        ):
            self.errors.append(message["params"]["entry"]["text"])
        return message

    def call(self, method: str, **params) -> dict:
        self._last += 1
        request = {"id": self._last, "method": method, "params": params} | (
            {"sessionId": self._session} if self._session else {}
        )
        os.write(self._to, json.dumps(request).encode() + b"\0")
        while (message := self._read()).get("id") != self._last:
            pass
        if "error" in message:
            raise RuntimeError(message["error"])
        return message["result"]

    def open(self, path: pathlib.Path, width: int = 1024, dark: bool = False):
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}],
        )
        self.call("Page.navigate", url=path.as_uri())
        while self._read().get("method") != "Page.loadEventFired":
            pass

    def run(self, script: str):
        """The value of an expression."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def text(self, of_id: str) -> str:
        return self.run(f"document.getElementById('{of_id}').textContent")

    def hover(self, selector: str):
        x, y = self.run(f"""(() => {{
            const e = document.querySelector({selector!r}); e.scrollIntoView({{block: 'center'}});
            const b = e.getBoundingClientRect();
            return [b.x + b.width / 2, b.y + b.height / 2]; }})()""")
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def press(self, key: str):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def picture(self) -> bytes:
        """The whole page, PNG."""
        return base64.b64decode(
            self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        )
