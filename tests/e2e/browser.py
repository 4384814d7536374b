"""A headless Chromium, driven by the DevTools protocol over two pipes. Shows pages and collects their errors."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")
INSTALL = "ci/install.sh browser"


class Browser:
    """`with Browser() as browser:` opens one page. `complaints`: messages of the page's console and log, script errors,
    and requests outside the file. The end of `with` ends the process and removes its profile."""

    def __init__(self, timeout=150):
        self.deadline = time.monotonic() + timeout
        self.complaints, self.requests = [], []
        self._number, self._buffer = 0, b""
        self._profile = tempfile.TemporaryDirectory(prefix="penstock-browser-", ignore_cleanup_errors=True)
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        # The browser expects the pipes at descriptors 3 and 4: a shell moves them there.
        words = [PROGRAM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                 "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
                 f"--user-data-dir={self._profile.name}", "--remote-debugging-pipe", "about:blank"]
        shell = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self._process = subprocess.Popen(["bash", "-c", shell, "bash", *words], stdout=subprocess.DEVNULL,
                                         stderr=subprocess.DEVNULL, pass_fds=(theirs_in, theirs_out))
        os.close(theirs_in)
        os.close(theirs_out)
        self._session = None

    def __enter__(self):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *_):
        try:
            self._session = None
            self.call("Browser.close")
            self._process.wait(10)
        except (TimeoutError, EOFError, OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        os.close(self._out)
        self._profile.cleanup()

    def call(self, method, **parameters):
        """Sends one command and returns its result; records events meanwhile."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            said = self._next()
            if said.get("id") == self._number:
                if "error" in said:
                    raise RuntimeError(f"{method}: {said['error']}")
                return said["result"]
            self._note(said)

    def _next(self):
        while b"\0" not in self._buffer:
            left = self.deadline - time.monotonic()
            if left <= 0 or not select.select([self._in], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            some = os.read(self._in, 1 << 20)
            if not some:
                raise EOFError("the browser has ended")
            self._buffer += some
        first, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(first)

    def _note(self, said):
        method, what = said.get("method"), said.get("params", {})
        if method == "Runtime.consoleAPICalled":
            self.complaints.append(f"console: {what['args']}")
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(f"script: {what['exceptionDetails']}")
        elif method == "Log.entryAdded":
            self.complaints.append(f"log: {what['entry']['text']}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(what["request"]["url"])
        elif method == "Page.loadEventFired":
            self._loaded = True

    def open(self, path, width, height=1000, dark=False):
        """Opens the file in a window of this size, and waits until it is loaded."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", media="screen",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self._loaded = False
        self.call("Page.navigate", url=path.resolve().as_uri())
        while not self._loaded:
            self._note(self._next())

    def value(self, script):
        """Evaluates a script in the page."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"])
        return result["result"].get("value")

    def screenshot(self, path, whole=True):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))

    def pdf(self, path):
        """Prints the page on A4."""
        data = self.call("Page.printToPDF", printBackground=True, paperWidth=8.27, paperHeight=11.69,
                         preferCSSPageSize=True)["data"]
        path.write_bytes(base64.b64decode(data))
