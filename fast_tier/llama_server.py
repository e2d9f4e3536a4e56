"""Start llama.cpp's server on a GGUF file, closed to the outside.

The package ``xllamacpp`` (extra ``llm``) has no way to load a model without its HTTP listener.
Here that is a Unix socket in a private folder, removed as soon as the model is loaded: nothing
can connect to it, the object that is returned is the only way in.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any

from fast_tier.errors import ModelUnavailable

_GGUF_MAGIC = b"GGUF"
# sockaddr_un.sun_path holds 108 bytes, the last one NUL.
_MAX_SOCKET_PATH_BYTES = 107


def gguf_revision(path: Path) -> str:
    """Return ``"sha256:"`` and the digest of the whole file; about 1 s a GB.

    Raises:
        ModelUnavailable: If the file cannot be read or does not start like a GGUF.
    """
    try:
        with path.open("rb") as file:
            if file.read(len(_GGUF_MAGIC)) != _GGUF_MAGIC:
                msg = f"{path}: not a GGUF file"
                raise ModelUnavailable(msg)
            file.seek(0)
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    except OSError as error:
        msg = f"{path}: cannot be read: {error.strerror}"
        raise ModelUnavailable(msg) from error


def start_server(path: Path, *, context_tokens: int, threads: int, slots: int) -> Any:
    """Return an ``xllamacpp.Server`` with the model loaded; blocks for seconds.

    Args:
        path: The GGUF file.
        context_tokens: What one request may use, prompt plus answer.
        threads: CPU threads of one step.
        slots: Generations at once; each has memory for its own context.

    Raises:
        ModelUnavailable: If the library is not installed or cannot load the file.
    """
    try:
        import xllamacpp
    except ImportError as error:
        msg = "a GGUF model needs the package xllamacpp: pip install 'fastslow[llm]'"
        raise ModelUnavailable(msg) from error
    parameters = xllamacpp.CommonParams()
    parameters.model.path = os.fspath(path)
    parameters.n_ctx = context_tokens * slots
    parameters.n_parallel = slots
    parameters.n_threads_http = 1
    parameters.verbosity = 0
    # The default keeps up to 8 GiB of earlier prompts.
    parameters.cache_ram_mib = 0
    parameters.endpoint_slots = False
    parameters.ui = False
    for cpu in (parameters.cpuparams, parameters.cpuparams_batch):
        cpu.n_threads = threads
        cpu.poll = 0
    try:
        with tempfile.TemporaryDirectory(prefix="fastslow-") as folder:
            socket = f"{folder}/http.sock"
            if len(os.fsencode(socket)) > _MAX_SOCKET_PATH_BYTES:
                msg = f"TMPDIR: {folder} is too long for a Unix socket"
                raise ModelUnavailable(msg)
            parameters.hostnames = [socket]
            server = xllamacpp.Server(parameters)
        # Its loop starts some time after this; freed before that, it would wait for ever.
        server.handle_completions({"prompt": "a", "max_tokens": 1})
    except OSError as error:
        msg = f"TMPDIR: loading a model needs a writable temporary folder: {error.strerror}"
        raise ModelUnavailable(msg) from error
    except RuntimeError as error:
        msg = f"{path}: llama.cpp cannot load it (truncated, of an unknown kind, or no memory)"
        raise ModelUnavailable(msg) from error
    return server
