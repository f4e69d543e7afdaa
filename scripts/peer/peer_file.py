"""peer_file.py IN.gguf OUT.gguf [--f32]: our file in a form llama.cpp takes.

Leaves out the draft block (tensors mtp.*): llama.cpp refuses a file with tensors it has no use for. With --f32
every quantized tensor is decoded by gguf-py, so that two engines that agree on the file's values compute the
same thing but for the order of sums. Metadata records, and tensor bytes without --f32, are copied as they are.
"""

import struct
import sys

from gguf import GGMLQuantizationType, GGUFReader
from gguf.quants import dequantize

ALIGNMENT = 32
F32 = GGMLQuantizationType.F32
KEPT = (F32, GGMLQuantizationType.I32)


def padding(n):
    return b"\0" * (-n % ALIGNMENT)


def form_of(tensor, decode):
    """The tensor's type and bytes in the new file."""
    if not decode or tensor.tensor_type in KEPT:
        return tensor.tensor_type, tensor.data.tobytes()
    return F32, dequantize(tensor.data, tensor.tensor_type).astype("<f4").tobytes()


def main():
    source, target, *flags = sys.argv[1:]
    if flags not in ([], ["--f32"]):
        sys.exit(__doc__)
    reader = GGUFReader(source)
    if "general.alignment" in reader.fields:
        sys.exit(f"{source}: has general.alignment, which this script does not handle")
    keys = [f for name, f in reader.fields.items() if not name.startswith("GGUF.")]
    kept = [t for t in reader.tensors if not t.name.startswith("mtp.")]
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(kept), len(keys))
    head += b"".join(part.tobytes() for field in keys for part in field.parts)
    offset = 0
    for tensor in kept:
        # A directory record ends with type and offset.
        kind, data = form_of(tensor, bool(flags))
        head += b"".join(part.tobytes() for part in tensor.field.parts[:-2])
        head += struct.pack("<IQ", kind, offset)
        offset += len(data) + len(padding(len(data)))
    with open(target, "wb") as out:
        out.write(head + padding(len(head)))
        for tensor in kept:
            data = form_of(tensor, bool(flags))[1]
            out.write(data + padding(len(data)))


main()
