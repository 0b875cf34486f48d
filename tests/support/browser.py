"""A headless Chromium, driven over its own pipe; tests that need it are skipped loudly without it, and fail where it
must be there. It says what the browser made of a page (`seen.js`), and judges nothing.
"""

from __future__ import annotations

import base64
import json
import os
import selectors
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.until import OUTER_S

REQUIRED = "TANDEMQ_BROWSER_REQUIRED"
NAMES = ("chromium", "chromium-browser", "google-chrome")
HEIGHT = 4000  # higher than any page here: only what is in view can be asked for what lies under it
PICTURES = Path(__file__).resolve().parents[2] / "build" / "pages"
PROBE = Path(__file__).with_name("seen.js")
FLAGS = (
    *("--headless=new", "--remote-debugging-pipe", "--no-first-run", "--no-default-browser-check"),
    *("--disable-gpu", "--disable-extensions", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars", "--force-color-profile=srgb"),
    "--no-sandbox",  # tests run as root in containers; nothing but our own files is opened
)


def chromium_program() -> str:
    """The browser's program."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is not None:
        return found
    if os.environ.get(REQUIRED, "") not in ("", "0"):
        pytest.fail(f"no chromium (`make chromium`), and {REQUIRED} is set")
    pytest.skip("PAGES NOT TESTED: no chromium (`make chromium`)")


class Shown(NamedTuple):
    """What became of one page: what it said on the console, whom it asked, and what stands where."""

    console: list[str]
    requests: list[str]  # beside the page itself
    facts: dict[str, Any]


class Browser:
    """One browser and one tab of it."""

    def __init__(self, to_it: int, from_it: int) -> None:
        self._to, self._from = to_it, from_it
        self._selector = selectors.DefaultSelector()
        self._selector.register(from_it, selectors.EVENT_READ)
        self._left, self._number, self._session = b"", 0, ""
        self._events: list[dict[str, Any]] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **values: Any) -> dict[str, Any]:
        """One command; events that come before its answer are kept. Raises RuntimeError."""
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": values}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"chromium refuses {method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            self._events.append(answer)

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + OUTER_S
        while b"\0" not in self._left:
            if not self._selector.select(max(0.0, deadline - time.monotonic())):
                raise RuntimeError(f"chromium says nothing for {OUTER_S:g} s")
            chunk = os.read(self._from, 1 << 16)
            if not chunk:
                raise RuntimeError("chromium has ended")
            self._left += chunk
        line, _, self._left = self._left.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def show(self, page: Path, width: int, scheme: str, picture: Path | None = None) -> Shown:
        """Opens a file in a window so wide, light or dark; keeps a picture of the whole page."""
        self._events.clear()
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=HEIGHT, deviceScaleFactor=1, mobile=width < 500
        )
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        address = page.resolve().as_uri()
        refusal = self.ask("Page.navigate", url=address).get("errorText")
        if refusal:
            raise RuntimeError(f"chromium does not open {page}: {refusal}")
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._events.append(self._next())
        answer = self.ask("Runtime.evaluate", expression=PROBE.read_text(encoding="utf-8"), returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"seen.js fails: {answer['exceptionDetails']}")
        facts: dict[str, Any] = answer["result"]["value"]
        if picture is not None:
            clip = {"x": 0, "y": 0, "width": width, "height": min(facts["height"], HEIGHT), "scale": 1}
            picture.parent.mkdir(parents=True, exist_ok=True)
            picture.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", clip=clip)["data"]))
        console = [said for event in self._events if (said := _said(event))]
        asked = [
            event["params"]["request"]["url"]
            for event in self._events
            if event["method"] == "Network.requestWillBeSent"
        ]
        return Shown(console, [url for url in asked if url != address], facts)


def _said(event: dict[str, Any]) -> str:
    values = event.get("params", {})
    match event["method"]:
        case "Runtime.consoleAPICalled":
            return f"{values['type']}: {' '.join(str(each.get('value', each)) for each in values['args'])}"
        case "Runtime.exceptionThrown":
            return f"exception: {values['exceptionDetails'].get('exception', values['exceptionDetails'])}"
        case "Log.entryAdded":
            return f"{values['entry']['level']}: {values['entry']['text']}"
    return ""


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A browser with a profile of its own in this folder, ended with the block."""
    program = chromium_program()
    its_input, to_it = os.pipe()
    from_it, its_output = os.pipe()
    # The pipe has to be its file descriptors 3 and 4.
    shell = f'exec "$@" 3<&{its_input} 4>&{its_output}'
    command = ["bash", "-c", shell, "chromium", program, *FLAGS, f"--user-data-dir={folder / 'profile'}"]
    with (folder / "chromium.log").open("wb") as log:
        process = subprocess.Popen(command, pass_fds=(its_input, its_output), stdout=log, stderr=log)
    os.close(its_input)
    os.close(its_output)
    try:
        yield Browser(to_it, from_it)
    finally:
        os.close(to_it)  # it ends when nobody speaks to it any more
        try:
            process.wait(OUTER_S)
        finally:
            process.kill()
            process.wait()
            os.close(from_it)
