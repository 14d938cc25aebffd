"""The live page of a sweep as a process, and requests to it; no test module itself."""

import http.client
import json
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)


@dataclass
class Server:
    """A running `llm-planning view --live`."""

    process: subprocess.Popen
    url: str

    @property
    def port(self):
        return urlsplit(self.url).port

    def ask(self, path, *, method="GET", host=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.putrequest(method, path, skip_host=True)
        connection.putheader("Host", f"127.0.0.1:{self.port}" if host is None else host)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        answer = connection.getresponse()
        received = {name.lower(): value for name, value in answer.getheaders()}
        read = Answer(answer.status, received, answer.read())
        connection.close()
        return read

    def end(self, number=signal.SIGINT):
        """Ends the command; its exit code and what it wrote to standard error."""
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=120)
        return self.process.returncode, errors


@contextmanager
def serving(folder, *arguments):
    command = [sys.executable, "-m", "llm_planning.cli", "view", str(folder), "--live"]
    process = subprocess.Popen(
        [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield Server(process, process.stdout.readline().strip())
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()
