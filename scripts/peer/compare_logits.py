"""compare_logits.py LABEL OURS THEIRS NAMES [--hf CHECKPOINT] [--rows] [--limit-.. X]

Holds next-token logits of two engines against each other: f32 files [rows, vocab_size], either logits or
log-probabilities, NAMES with a line a row. Each row is centred, which makes the two the same thing.

  relative L2   |ours - theirs| / |theirs| of centred rows        max abs   the largest difference in a row
  KL            of the softmaxes, both ways, nats                 top-1     rows whose likeliest token agrees

One line for the reference prompts and one for the steps of the answers: the worst row's numbers, and how many
greedy answers would be the same text. --hf adds each engine against the float32 logits of the checkpoint's
reference file. --rows prints each reference prompt. --limit-l2 and --limit-kl hold for every row, --limit-median
for the median of relative L2. Exit: 0, or 1 when a limit is passed or when a likeliest token differs whose lead
is more than twice the largest difference of its row.
"""

import argparse
import collections
import json
import pathlib
import struct
import sys

import numpy as np


def log_softmax(rows):
    rows = rows.astype(np.float64)
    rows = rows - rows.max(axis=1, keepdims=True)
    return rows - np.log(np.exp(rows).sum(axis=1, keepdims=True))


def centred(rows):
    return rows - rows.mean(axis=1, keepdims=True)


class Difference:
    """Per-row numbers of a [rows, vocab] against b."""

    def __init__(self, a, b):
        log_a, log_b = log_softmax(a), log_softmax(b)
        gap = centred(log_a) - centred(log_b)
        self.l2 = np.linalg.norm(gap, axis=1) / np.linalg.norm(centred(log_b), axis=1)
        self.max_abs = np.abs(gap).max(axis=1)
        self.kl_ab = (np.exp(log_a) * (log_a - log_b)).sum(axis=1)
        self.kl_ba = (np.exp(log_b) * (log_b - log_a)).sum(axis=1)
        self.same_top = log_a.argmax(axis=1) == log_b.argmax(axis=1)
        best_two = np.sort(log_b, axis=1)[:, -2:]
        self.lead = best_two[:, 1] - best_two[:, 0]

    def unexplained(self):
        return ~self.same_top & (self.lead > 2 * self.max_abs)

    def text(self, rows):
        def worst(x):
            return f"{np.abs(x[rows]).max():.2e}"
        n = int(np.count_nonzero(rows))
        return (f"relative L2 {worst(self.l2)} (median {np.median(self.l2[rows]):.2e}), "
                f"max abs {worst(self.max_abs)}, KL {worst(self.kl_ab)} / {worst(self.kl_ba)}, "
                f"top-1 {np.count_nonzero(self.same_top & rows)}/{n}")


def hf_rows(folder, names):
    """Last float32 logits of each reference prompt, by name."""
    data = (folder / "reference.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    entries = json.loads(data[8:8 + length])
    for name in names:
        entry = entries[name + ".logits"]
        begin, end = (8 + length + x for x in entry["data_offsets"])
        yield np.frombuffer(data[begin:end], np.float32).reshape(entry["shape"])[-1]


def same_answers(names, same_top):
    """How many answers have the same likeliest token at every step."""
    answers = collections.defaultdict(bool)
    for name, same in zip(names, same_top):
        if name.startswith("chat"):
            answer = name.split(".")[0]
            answers[answer] = answers.get(answer, True) and bool(same)
    return sum(answers.values()), len(answers)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("label")
    parser.add_argument("ours")
    parser.add_argument("theirs")
    parser.add_argument("names")
    parser.add_argument("--hf", type=pathlib.Path)
    parser.add_argument("--rows", action="store_true")
    parser.add_argument("--limit-l2", type=float, default=np.inf)
    parser.add_argument("--limit-median", type=float, default=np.inf)
    parser.add_argument("--limit-kl", type=float, default=np.inf)
    options = parser.parse_args()
    names = pathlib.Path(options.names).read_text().split()
    ours, theirs = (np.fromfile(p, "<f4").reshape(len(names), -1) for p in (options.ours, options.theirs))
    is_chat = np.array([name.startswith("chat") for name in names])
    difference = Difference(ours, theirs)
    if options.rows:
        for i in np.flatnonzero(~is_chat):
            print(f"     {names[i]}: {difference.text(np.arange(len(names)) == i)}")
    failed = (difference.unexplained() | ~(difference.l2 <= options.limit_l2)
              | ~(np.maximum(difference.kl_ab, difference.kl_ba) <= options.limit_kl))
    same, count = same_answers(names, difference.same_top)
    all_passed = True
    for what, rows in (("prompts", ~is_chat), ("answer steps", is_chat)):
        passed = not (failed & rows).any() and np.median(difference.l2[rows]) <= options.limit_median
        all_passed &= passed
        verdict = "PASS" if passed else "FAIL"
        answers = f", same answer {same}/{count}" if what == "answer steps" else ""
        print(f"{verdict} {options.label}, {np.count_nonzero(rows)} {what}: {difference.text(rows)}{answers}")
    if options.hf:
        exact = np.stack(list(hf_rows(options.hf, [n for n in names if not n.startswith("chat")])))
        every = np.ones(len(exact), bool)
        print(f"     ours against HF float32: {Difference(ours[~is_chat], exact).text(every)}")
        print(f"     theirs against HF float32: {Difference(theirs[~is_chat], exact).text(every)}")
    sys.exit(0 if all_passed else 1)


main()
