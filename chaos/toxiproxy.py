"""Drives Toxiproxy: its server as a process of ours, its proxies and their toxics; it knows no pair and no fault.

The one door to toxiproxy-python. That package keeps the endpoint in a class, waits for ever, and takes a 500 for an
answer; here every instance has its own endpoint, every call a time limit, and every refusal an error that says what to
do. The package is lent our session for the time of one call, under a lock.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from chaos.toxics import Stream, Toxic, ToxiproxyError

VERSION = "2.12.0"
BINARY = "toxiproxy-server"
BUILT = Path("build") / "chaos" / BINARY  # where `make chaos-deps` puts it
CALL_S = 15.0  # taking a toxic away may wait for what it still holds
START_S = 10.0
POLL_S = 0.02
LOG_LEVEL = "info"  # what it says by default, each link of each connection, drowns a pair's own logs
BYTES_OF_ANSWER_MAX = 300  # of a refusal, in a message
# A shell that waits for the end of its input and then ends the server, which has its place and its id by then.
UNTIL_STDIN_CLOSES = 'exec 3<&0; { cat <&3 >/dev/null; kill -9 $$; } & exec 3<&- </dev/null; exec "$0" "$@"'

Result = TypeVar("Result")

_LENT = threading.Lock()  # the package has one endpoint and one session


def find_server(root: Path | None = None) -> Path | None:
    """The server's program: on the PATH, else where `make chaos-deps` builds it in the checkout; None when nowhere."""
    on_path = shutil.which(BINARY)
    if on_path:
        return Path(on_path)
    built = (root or Path(__file__).resolve().parent.parent) / BUILT
    return built if os.access(built, os.X_OK) else None


def package_is_there() -> bool:
    """toxiproxy-python is installed (extra `chaos`)."""
    return importlib.util.find_spec("toxiproxy") is not None


class _Refusal(Exception):  # noqa: N818 - never seen outside
    """An answer that the package would have taken for success."""


class _Session:
    """What the package takes for its HTTP library: bounded in time, and a 5xx is an error."""

    def __init__(self, timeout_s: float) -> None:
        import requests

        self._inner = requests.Session()
        self._inner.trust_env = False  # a proxy of the environment is not between us and loopback
        self._timeout_s = timeout_s

    def get(self, url: str, **values: Any) -> Any:
        return self._send("GET", url, values)

    def post(self, url: str, **values: Any) -> Any:
        return self._send("POST", url, values)

    def delete(self, url: str, **values: Any) -> Any:
        return self._send("DELETE", url, values)

    def _send(self, verb: str, url: str, values: dict[str, Any]) -> Any:
        answer = self._inner.request(verb, url, timeout=self._timeout_s, **values)
        if answer.status_code >= 500:
            raise _Refusal(answer.text)
        return answer

    def close(self) -> None:
        self._inner.close()


class Proxy:
    """One port that leads to a target. Made by `Toxiproxy.create` or `Toxiproxy.find`."""

    def __init__(self, owner: Toxiproxy, inner: Any) -> None:
        self._owner, self._inner = owner, inner
        self.name: str = inner.name
        self.listen: str = inner.listen
        self.upstream: str = inner.upstream

    def add(self, toxic: Toxic, stream: Stream, toxicity: float = 1.0) -> None:
        """The toxic is in force when this returns; one of its kind and direction is replaced."""
        name = f"{toxic.kind}_{stream.value}"
        if name in self.toxics():
            self.remove(name)
        facts = {"type": toxic.kind, "stream": stream.value, "name": name, "toxicity": toxicity}
        self._owner.call(lambda: self._inner.add_toxic(**facts, attributes=toxic.attributes()), self.name)

    def toxics(self) -> list[str]:
        """Names of those in force."""
        return list(self._owner.call(self._inner.toxics, self.name))

    @property
    def enabled(self) -> bool:
        """It listened when it was found or last switched on."""
        return bool(self._inner.enabled)

    def remove(self, name: str) -> None:
        """Takes one toxic away."""
        self._owner.call(lambda: self._inner.destroy_toxic(name), f"{self.name}/{name}")

    def disable(self) -> None:
        """Ends what is open and listens no more."""
        self._owner.call(self._inner.disable, self.name)

    def heal(self) -> None:
        """Takes every toxic away and listens."""
        for name in self.toxics():
            self.remove(name)
        self._owner.call(self._inner.enable, self.name)

    def destroy(self) -> None:
        """The proxy is gone and its port free."""
        self._owner.call(self._inner.destroy, self.name)


class Toxiproxy:
    """A Toxiproxy server that runs at `endpoint` (host:port), whoever started it. May be used from any thread."""

    def __init__(self, endpoint: str, timeout_s: float = CALL_S) -> None:
        if not package_is_there():
            raise ToxiproxyError("NOT_INSTALLED", "toxiproxy-python is missing: install tandemq[chaos]")
        self.endpoint = endpoint
        self._host, _, port = endpoint.rpartition(":")
        self._port = int(port)
        self._session = _Session(timeout_s)
        self._server = importlib.import_module("toxiproxy.server").Toxiproxy()

    def call(self, work: Callable[[], Result], about: str) -> Result:
        """One call of the package, with its errors as ours. Raises ToxiproxyError."""
        import requests
        from toxiproxy import api, exceptions

        with _LENT:
            api.requests = self._session
            api.APIConsumer.host, api.APIConsumer.port = self._host, self._port
            try:
                return work()
            except (requests.RequestException, json.JSONDecodeError) as error:
                raise ToxiproxyError(
                    "SERVER_GONE", f"Toxiproxy at {self.endpoint} does not answer ({type(error).__name__})"
                ) from error
            except exceptions.ProxyExists as error:
                raise ToxiproxyError("EXISTS", f"{about} is there already at {self.endpoint}") from error
            except exceptions.NotFound as error:
                raise ToxiproxyError("NOT_FOUND", f"{about} is not known at {self.endpoint}") from error
            except exceptions.InvalidToxic as error:
                raise ToxiproxyError("UNKNOWN_TOXIC", f"{about}: {_text(error)}") from error
            except _Refusal as error:
                taken = "address already in use" in str(error)
                advice = "; choose another port" if taken else ""
                raise ToxiproxyError(
                    "PORT_IN_USE" if taken else "REFUSED", f"{about}: {_text(error)}{advice}"
                ) from error

    def version(self) -> str:
        """What the server calls itself."""
        answer = self.call(lambda: importlib.import_module("toxiproxy.api").APIConsumer.get("/version"), "version")
        return str(answer.json()["version"])

    def create(self, name: str, listen: str, upstream: str) -> Proxy:
        """Listens when it returns. Raises ToxiproxyError: PORT_IN_USE, EXISTS."""
        return Proxy(self, self.call(lambda: self._server.create(upstream, name, listen), f"proxy {name} at {listen}"))

    def find(self, name: str) -> Proxy:
        """A proxy that is there. Raises ToxiproxyError (NOT_FOUND)."""
        inner = self.call(lambda: self._server.get_proxy(name), name)
        if inner is None:
            raise ToxiproxyError("NOT_FOUND", f"proxy {name} is not known at {self.endpoint}")
        return Proxy(self, inner)

    def names(self) -> list[str]:
        """Of every proxy there."""
        return list(self.call(self._server.proxies, "proxies"))

    def close(self) -> None:
        """Ends our connections; the server goes on."""
        self._session.close()


class ToxiproxyServer:
    """A server of our own at `endpoint`; `with ToxiproxyServer(...) as server: server.api.create(...)`."""

    def __init__(self, program: Path, endpoint: str, log: Path) -> None:
        self.api = Toxiproxy(endpoint)
        self._program, self._log = program, log
        self._host, _, self._port = endpoint.rpartition(":")
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def ended(self) -> str:
        """That it ended by itself, and how; empty: it runs, was never started, or was closed."""
        code = self._process.poll() if self._process else None
        if code is None:
            return ""
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"Toxiproxy at {self.api.endpoint} ended by itself with {how}; see {self._log}"

    def start(self) -> None:
        """Answers when it returns. Raises ToxiproxyError: PORT_IN_USE, NOT_INSTALLED, SERVER_GONE."""
        self._refuse_a_taken_port()
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as undo, self._log.open("ab") as log:
            arguments = [str(self._program), "-host", self._host, "-port", self._port]
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", UNTIL_STDIN_CLOSES, *arguments],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                process_group=0,
                env={**os.environ, "LOG_LEVEL": LOG_LEVEL},
            )
            undo.callback(self.close)
            self._wait_until_it_answers()
            undo.pop_all()

    def _refuse_a_taken_port(self) -> None:
        """The server would go on without its port, and whoever has the port would be taken for it."""
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((self._host, int(self._port)))
            except OSError as error:
                where = self.api.endpoint
                raise ToxiproxyError("PORT_IN_USE", f"{where}: {error.strerror}; choose another port") from error

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + START_S
        while True:
            if not self.running:
                raise ToxiproxyError("NOT_INSTALLED", f"{self._program} ended at once; see {self._log}")
            with contextlib.suppress(ToxiproxyError):
                self.api.version()
                return
            if time.monotonic() > deadline:
                raise ToxiproxyError("SERVER_GONE", f"{self._program} does not answer; see {self._log}")
            time.sleep(POLL_S)

    def close(self) -> None:
        """Ends the server and all its proxies. May be repeated."""
        self.api.close()
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # it keeps nothing
        self._process.wait()
        if self._process.stdin:
            self._process.stdin.close()
        self._process = None


@contextlib.contextmanager
def server_at(program: Path, endpoint: str, log: Path) -> Iterator[Toxiproxy]:
    """A server for the time of a block."""
    with ToxiproxyServer(program, endpoint, log) as server:
        yield server.api


def _text(error: Exception) -> str:
    """What the server said, without its JSON when it is one."""
    raw = error.args[0] if error.args else ""
    text = raw.decode(errors="replace") if isinstance(raw, bytes) else str(raw)
    with contextlib.suppress(ValueError):
        found = json.loads(text)
        text = str(found.get("error", text)) if isinstance(found, dict) else text
    return text.strip()[:BYTES_OF_ANSWER_MAX]
