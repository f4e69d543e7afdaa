"""compare_dumps.py LABEL OURS THEIRS [--same-model]: holds two outputs of the dump programs against each other.

They are of one file seen by two readers; or, with --same-model, of two files that two converters made of one
checkpoint: then offsets and general.* keys may differ, types too when one file is all F32, and keys of the
vocabulary count where both have them. Prints one PASS or FAIL line for each kind of statement, with its count,
and the first differences. A value that the other reader cannot decode fails: nobody has checked it.
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


def compare_one_file(report, ours, theirs):
    (header_a, keys_a, tensors_a), (header_b, keys_b, tensors_b) = ours, theirs
    report.line("header", [] if header_a == header_b else [f"ours {header_a}, theirs {header_b}"],
                ", ".join(f"{name} {value}" for name, value in header_b.items()))
    report.line("keys, types and values", differences(keys_a, keys_b, ("type", "value")), f"{len(keys_b)} keys")
    report.line("key order", [] if list(keys_a) == list(keys_b) else ["order differs"], "as in the file")
    report.line("tensor names, types, dims, offsets",
                differences(tensors_a, tensors_b, ("type", "dims", "offset")), f"{len(tensors_b)} tensors")
    if any("sha256" in t or "unread" in t for t in tensors_b.values()):
        compare_values(report, tensors_a, tensors_b)


def compare_one_model(report, ours, theirs):
    (_, keys_a, tensors_a), (_, keys_b, tensors_b) = ours, theirs

    def chosen(keys, others):
        return {k: v for k, v in keys.items()
                if k.startswith("deepseek4.") or k.startswith("tokenizer.") and k in others}
    mine, other = chosen(keys_a, keys_b), chosen(keys_b, keys_a)
    report.line("shape, constants, vocabulary", differences(mine, other, ("type", "value")), f"{len(other)} keys")
    expanded = all(t["type"] in ("F32", "I32") for t in tensors_b.values())
    fields = ("dims",) if expanded else ("dims", "type")
    report.line(f"tensor names, {' and '.join(fields)}", differences(tensors_a, tensors_b, fields),
                f"{len(tensors_b)} tensors")
    compare_values(report, tensors_a, tensors_b)


def main():
    label, ours_path, theirs_path, *flags = sys.argv[1:]
    report = Report(label)
    compare = compare_one_model if flags == ["--same-model"] else compare_one_file
    compare(report, load(ours_path), load(theirs_path))
    sys.exit(1 if report.failed else 0)


main()
