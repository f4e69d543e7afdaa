"""compare_dumps.py LABEL OURS THEIRS: holds two outputs of the dump programs against each other.

Prints one PASS or FAIL line for each kind of statement the other reader makes, with its count, and the first
differences. Values it could not decode are counted apart and fail: a type nobody else reads is unproven.
Exit: 0 all equal, 1 not.
"""

import collections
import json
import sys

SHOWN_DIFFERENCES = 5


def load(path):
    header, keys, tensors = None, {}, {}
    with open(path, encoding="utf-8") as lines:
        for line in map(json.loads, lines):
            if "key" in line:
                keys[line["key"]] = line
            elif "tensor" in line:
                tensors[line["tensor"]] = line
            else:
                header = line
    return header, keys, tensors


class Report:
    def __init__(self, label):
        self.label = label
        self.failed = False

    def line(self, what, differences, count):
        passed = not differences
        self.failed |= not passed
        print(f"{'PASS' if passed else 'FAIL'} {self.label}: {what}: {count}")
        for text in differences[:SHOWN_DIFFERENCES]:
            print(f"     {text}")
        if len(differences) > SHOWN_DIFFERENCES:
            print(f"     and {len(differences) - SHOWN_DIFFERENCES} more")


def brief(value):
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."


def differences(ours, theirs, fields):
    """Differences of the records both have, and the records only one has."""
    found = [f"{name}: only in ours" for name in ours if name not in theirs]
    found += [f"{name}: only in theirs" for name in theirs if name not in ours]
    for name in ours:
        for field in fields:
            a, b = ours[name].get(field), theirs.get(name, ours[name]).get(field)
            if a != b:
                found.append(f"{name}: {field}: ours {brief(a)}, theirs {brief(b)}")
    return found


def compare_values(report, ours, theirs):
    """Hashes of decoded values, one line for each tensor type."""
    by_type = collections.defaultdict(list)
    for name, tensor in ours.items():
        by_type[tensor["type"]].append(name)
    for kind, names in sorted(by_type.items()):
        unequal, unsigned = [], 0
        for name in names:
            a, b = ours[name], theirs.get(name, {})
            if "sha256" not in b:
                unequal.append(f"{name}: not decoded: {b.get('unread', 'absent')}")
            elif a["sha256"] != b["sha256"]:
                # Equal but for -0 in place of +0: no sum that starts at +0 can tell them apart.
                if a.get("sha256_no_sign", a["sha256"]) == b.get("sha256_no_sign", b["sha256"]):
                    unsigned += 1
                else:
                    unequal.append(f"{name}: values differ")
        note = f", {unsigned} of them but for the sign of zeros" if unsigned else ""
        report.line(f"{kind} values", unequal, f"{len(names) - len(unequal)} of {len(names)} tensors equal{note}")


def main():
    label, ours_path, theirs_path = sys.argv[1:]
    (header_a, keys_a, tensors_a), (header_b, keys_b, tensors_b) = load(ours_path), load(theirs_path)
    report = Report(label)
    report.line("header", [] if header_a == header_b else [f"ours {header_a}, theirs {header_b}"], brief(header_b))
    report.line("keys, types and values", differences(keys_a, keys_b, ("type", "value")), f"{len(keys_b)} keys")
    report.line("key order", [] if list(keys_a) == list(keys_b) else ["order differs"], "as in the file")
    report.line("tensor names, types, dims, offsets",
                differences(tensors_a, tensors_b, ("type", "dims", "offset")), f"{len(tensors_b)} tensors")
    if any("sha256" in t or "unread" in t for t in tensors_b.values()):
        compare_values(report, tensors_a, tensors_b)
    sys.exit(1 if report.failed else 0)


main()
