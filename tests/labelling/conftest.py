"""Models behind real HTTP servers, whose answers a test scripts, and the command to ask them."""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from router.cli.app import app

Reply = str | int | dict[str, Any]


@dataclass
class ScriptedModel:
    """An OpenAI-compatible server on 127.0.0.1.

    ``answer`` gets a request's last user message and returns a text, an HTTP status or a whole
    message body; ``bodies`` are the requests in order of arrival.
    """

    answer: Callable[[str], Reply]
    models: tuple[str, ...] = ("scripted",)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    url: str = ""

    @property
    def prompts(self) -> list[str]:
        return [body["messages"][-1]["content"] for body in self.bodies]

    @property
    def verdicts(self) -> list[str]:
        return [prompt for prompt in self.prompts if "<answer_a>" in prompt]


class QuietServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that hang up."""


@pytest.fixture
def serve() -> Iterator[Callable[..., ScriptedModel]]:
    """Return what starts a model; all end with the test."""
    servers: list[ThreadingHTTPServer] = []

    def start(answer: Callable[[str], Reply], **options: Any) -> ScriptedModel:
        model = ScriptedModel(answer, **options)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._send(200, {"data": [{"id": name} for name in model.models]})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                model.bodies.append(body)
                model.headers.append({k.lower(): v for k, v in self.headers.items()})
                reply = model.answer(body["messages"][-1]["content"])
                if isinstance(reply, int):
                    self._send(reply, {"error": {"message": "scripted"}})
                    return
                if isinstance(reply, str):
                    message = {"role": "assistant", "content": reply}
                    usage = {"prompt_tokens": 10, "completion_tokens": len(reply)}
                    choice = {"index": 0, "message": message, "finish_reason": "stop"}
                    reply = {"model": "scripted", "choices": [choice], "usage": usage}
                self._send(200, reply)

            def _send(self, status: int, content: dict[str, Any]) -> None:
                data = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *arguments: object) -> None:
                pass

        server = QuietServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        model.url = f"http://127.0.0.1:{server.server_port}/v1"
        return model

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def prompts(tmp_path: Path) -> Callable[..., Path]:
    """Return what writes a file of prompts; a string is a row with a text only."""

    def write(*rows: str | dict[str, Any], name: str = "prompts.jsonl") -> Path:
        path = tmp_path / name
        objects = [{"text": row} if isinstance(row, str) else row for row in rows]
        path.write_text("".join(json.dumps(row) + "\n" for row in objects), encoding="utf-8")
        return path

    return write


@pytest.fixture
def label() -> Callable[..., Any]:
    """Return what runs the command on a file and two models."""

    def run(file: Path, fast: ScriptedModel, slow: ScriptedModel, *options: object):
        arguments = ["label", file, "--fast", fast.url, "--slow", slow.url, *options]
        return CliRunner().invoke(app, list(map(str, arguments)))

    return run
