"""llama_logits.py MODEL.gguf CHECKPOINT OUT [--as-shipped] [--longest N]: what llama.cpp thinks comes next.

Starts llama-server on a free loopback port, feeds it token ids and asks for the probability of every token:

  - the reference prompts of CHECKPOINT/reference.safetensors, the distribution after the last token;
  - the questions below, rendered by hand and tokenized by llama.cpp, answered greedily, the distribution at
    every step of the answer up to the token that ends it.

Writes OUT.names and OUT.ids (a line a row: its name, the ids before it) and OUT.f32, natural logarithms of the
probabilities, f32 [rows, vocab_size]. One thread: two spin against each other on a busy machine.

Unless --as-shipped, the KV cache is f32 and flash attention is off: what remains is llama.cpp's arithmetic on
weights of each type. --longest leaves out longer reference prompts.
"""

import argparse
import json
import pathlib
import socket
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request

import numpy as np

PEER = pathlib.Path(__file__).resolve().parent / "peer.sh"
START_SECONDS = 120
ANSWER_TOKENS_MAX = 64

USER, ASSISTANT, BOS = "<｜User｜>", "<｜Assistant｜>", "<｜begin▁of▁sentence｜>"
QUESTIONS = [
    ("What is the capital of Japan?", False), ("Who are you?", False), ("Hello, my friend!", False),
    ("What does a cow say?", False), ("Count from 3 to 8.", False), ("Spell the word lantern.", False),
    ("What is the symbol of gold?", False), ("Write a Python function that reverses a string.", False),
    ("What is the capital of Japan?", True), ("What is 23 + 14?", True), ("What is 52 + 36?", True),
]


def chat(question, think):
    return BOS + USER + question + ASSISTANT + ("<think>" if think else "</think>")


def reference_prompts(folder, longest):
    """Pairs of a name and its ids, from the safetensors file that reference.json describes."""
    data = (folder / "reference.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    entries = json.loads(data[8:8 + length])
    for prompt in json.loads((folder / "reference.json").read_text()):
        if prompt["tokens"] > longest:
            continue
        entry = entries[prompt["name"] + ".ids"]
        begin, end = (8 + length + x for x in entry["data_offsets"])
        kind = {"I32": np.int32, "I64": np.int64}[entry["dtype"]]
        yield prompt["name"], [int(x) for x in np.frombuffer(data[begin:end], kind)]


class Server:
    def __init__(self, model, log, as_shipped, context):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        precise = [] if as_shipped else ["-fa", "off", "-ctk", "f32", "-ctv", "f32"]
        self.url = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(
            [str(PEER), "llama", "llama-server", "-m", model, "-t", "1", "-np", "1", "-c", str(context),
             "--host", "127.0.0.1", "--port", str(port), "--no-webui", *precise], stdout=log, stderr=log)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def call(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=3600) as answer:
            return json.load(answer)

    def wait(self):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                return False
            try:
                self.call("/health")
                return True
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.2)
        return False

    def complete(self, ids, n_predict, vocab_size):
        """The tokens that follow, and the log-probabilities [n, vocab_size] each was drawn from."""
        answer = self.call("/completion", {
            "prompt": ids, "n_predict": n_predict, "n_probs": vocab_size, "temperature": 0,
            "cache_prompt": False, "return_tokens": True, "ignore_eos": False})
        rows = np.full((len(answer["completion_probabilities"]), vocab_size), np.nan, np.float32)
        for row, step in zip(rows, answer["completion_probabilities"]):
            for entry in step["top_logprobs"]:
                row[entry["id"]] = entry["logprob"]
        assert not np.isnan(rows).any(), "llama-server left tokens out"
        return [step["id"] for step in answer["completion_probabilities"]], rows


def collect(server, prompts, vocab_size):
    for name, ids in prompts:
        yield name, ids, server.complete(ids, 1, vocab_size)[1][0]
    for number, (question, think) in enumerate(QUESTIONS):
        ids = server.call("/tokenize", {"content": chat(question, think), "add_special": False,
                                        "parse_special": True})["tokens"]
        answer, rows = server.complete(ids, ANSWER_TOKENS_MAX, vocab_size)
        for step, row in enumerate(rows):
            yield f"chat{number}.{step}", ids + answer[:step], row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("checkpoint", type=pathlib.Path)
    parser.add_argument("out")
    parser.add_argument("--as-shipped", action="store_true")
    parser.add_argument("--longest", type=int, default=1 << 20)
    options = parser.parse_args()
    prompts = list(reference_prompts(options.checkpoint, options.longest))
    vocab_size = json.loads((options.checkpoint / "config.json").read_text())["vocab_size"]
    context = max(len(ids) for _, ids in prompts) + 1024
    with open(options.out + ".log", "w") as log, \
            Server(options.model, log, options.as_shipped, context) as server:
        if not server.wait():
            sys.exit(f"{options.model}: llama-server does not start:\n" + last_errors(options.out + ".log"))
        rows = list(collect(server, prompts, vocab_size))
    pathlib.Path(options.out + ".names").write_text("".join(name + "\n" for name, _, _ in rows))
    pathlib.Path(options.out + ".ids").write_text(
        "".join(" ".join(map(str, ids)) + "\n" for _, ids, _ in rows))
    np.stack([row for _, _, row in rows]).astype("<f4").tofile(options.out + ".f32")


def last_errors(path):
    lines = pathlib.Path(path).read_text(errors="replace").splitlines()
    return "\n".join([line for line in lines if " E " in line][:3] or lines[-3:])


main()
