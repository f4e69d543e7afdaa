"""without_draft.py IN.gguf OUT.gguf: the same file less the draft block (tensors mtp.*).

llama.cpp refuses a file with tensors it has no use for. Metadata records and tensor bytes are copied as they
are; only the count in the header and the tensors' offsets are written anew.
"""

import struct
import sys

from gguf import GGUFReader

ALIGNMENT = 32


def padding(n):
    return b"\0" * (-n % ALIGNMENT)


def main():
    source, target = sys.argv[1:]
    reader = GGUFReader(source)
    keys = [f for name, f in reader.fields.items() if not name.startswith("GGUF.")]
    if "general.alignment" in reader.fields:
        sys.exit(f"{source}: has general.alignment, which this script does not handle")
    kept = [t for t in reader.tensors if not t.name.startswith("mtp.")]
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(kept), len(keys))
    head += b"".join(part.tobytes() for field in keys for part in field.parts)
    offset = 0
    for tensor in kept:
        # The last part of a directory record is the offset.
        head += b"".join(part.tobytes() for part in tensor.field.parts[:-1]) + struct.pack("<Q", offset)
        offset += tensor.n_bytes + len(padding(tensor.n_bytes))
    with open(target, "wb") as out:
        out.write(head + padding(len(head)))
        for tensor in kept:
            out.write(tensor.data.tobytes())
            out.write(padding(tensor.n_bytes))
    print(f"{target}: {len(kept)} of {len(reader.tensors)} tensors, {len(keys)} keys")


main()
