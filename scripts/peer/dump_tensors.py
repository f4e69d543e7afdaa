"""dump_tensors.py FILE.gguf: header, metadata, tensor table and decoded values as gguf-py sees them.

The lines are those of our dump_tensors (tests/tools/dump_tensors.cpp). A tensor whose type gguf-py cannot
decode gets a reason in place of the hash.
"""

import hashlib
import json
import sys

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType
from gguf.quants import dequantize

TYPE_NAMES = {
    GGUFValueType.UINT8: "u8", GGUFValueType.INT8: "i8", GGUFValueType.UINT16: "u16",
    GGUFValueType.INT16: "i16", GGUFValueType.UINT32: "u32", GGUFValueType.INT32: "i32",
    GGUFValueType.FLOAT32: "f32", GGUFValueType.BOOL: "bool", GGUFValueType.STRING: "string",
    GGUFValueType.UINT64: "u64", GGUFValueType.INT64: "i64", GGUFValueType.FLOAT64: "f64",
}


def show(line):
    print(json.dumps(line, ensure_ascii=False, separators=(",", ":")))


def show_key(field):
    kinds = field.types
    name = TYPE_NAMES[kinds[-1]] if kinds[0] == GGUFValueType.ARRAY else TYPE_NAMES[kinds[0]]
    if kinds[0] == GGUFValueType.ARRAY:
        name = "array of " + name
    show({"key": field.name, "type": name, "value": field.contents()})


def hashes(tensor):
    if tensor.tensor_type in (GGMLQuantizationType.I32, GGMLQuantizationType.I64):
        return {"sha256": hashlib.sha256(tensor.data.tobytes()).hexdigest()}
    try:
        values = dequantize(tensor.data, tensor.tensor_type)
    except NotImplementedError as error:
        return {"unread": str(error) or "gguf-py has no decoder for this type"}
    values = np.ascontiguousarray(values, dtype="<f4")
    found = {"sha256": hashlib.sha256(values.tobytes()).hexdigest()}
    if np.any(values.view(np.uint32) == 0x80000000):
        found["sha256_no_sign"] = hashlib.sha256((values + np.float32(0)).tobytes()).hexdigest()
    return found


def main():
    reader = GGUFReader(sys.argv[1])
    keys = [f for name, f in reader.fields.items() if not name.startswith("GGUF.")]
    show({
        "version": int(reader.fields["GGUF.version"].contents()),
        "alignment": int(reader.alignment),
        "data_start": int(reader.data_offset),
        "n_keys": int(reader.fields["GGUF.kv_count"].contents()),
        "n_tensors": int(reader.fields["GGUF.tensor_count"].contents()),
    })
    for field in keys:
        show_key(field)
    for tensor in reader.tensors:
        show({
            "tensor": tensor.name,
            "type": tensor.tensor_type.name,
            "dims": [int(d) for d in tensor.shape],
            "offset": int(tensor.data_offset),
            **hashes(tensor),
        })


main()
