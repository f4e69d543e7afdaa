// dump_header.mjs MODULES FILE.gguf: header, metadata and tensor table as @huggingface/gguf sees them, in the
// lines of our dump_tensors (tests/tools/dump_tensors.cpp), without hashes: it reads no tensor data.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [modules, file] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${modules}/x.js`));
const { gguf, GGMLQuantizationType, GGUFValueType } = require('@huggingface/gguf');

const typeNames = {
  UINT8: 'u8', INT8: 'i8', UINT16: 'u16', INT16: 'i16', UINT32: 'u32', INT32: 'i32', FLOAT32: 'f32',
  BOOL: 'bool', STRING: 'string', UINT64: 'u64', INT64: 'i64', FLOAT64: 'f64',
};
const typeName = (id) => typeNames[GGUFValueType[id]];

// Lengths and offsets are BigInt in this library; those of a file are far below 2^53.
const plain = (_, value) => (typeof value === 'bigint' ? Number(value) : value);
const show = (line) => console.log(JSON.stringify(line, plain));

const { metadata, typedMetadata, tensorInfos, tensorDataOffset } = await gguf(file, {
  allowLocalFile: true,
  typedMetadata: true,
});
const header = ['version', 'tensor_count', 'kv_count'];
show({
  version: metadata.version,
  alignment: metadata['general.alignment'] ?? 32,
  data_start: tensorDataOffset,
  n_keys: metadata.kv_count,
  n_tensors: metadata.tensor_count,
});
for (const [key, { value, type, subType }] of Object.entries(typedMetadata)) {
  if (header.includes(key)) continue;
  const isArray = type === GGUFValueType.ARRAY;
  show({ key, type: isArray ? `array of ${typeName(subType)}` : typeName(type), value });
}
for (const { name, shape, dtype, offset } of tensorInfos) {
  // A type this version has no name for stays a number.
  const type = GGMLQuantizationType[dtype] ?? Number(dtype);
  show({ tensor: name, type, dims: shape, offset: tensorDataOffset + offset });
}
