#include "tests/fuzz/nano_header.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "base/check.h"
#include "gguf/file.h"
#include "gguf/writer.h"
#include "model/tensor_table.h"
#include "quantizer/metadata.h"
#include "tokenizer/special_tokens.h"

namespace ds4::fuzz {
namespace {

constexpr size_t kDataBytesMax = size_t{96} << 20;

template <typename T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_string(std::string& out, std::string_view text) {
  put(out, static_cast<uint64_t>(text.size()));
  out += text;
}

// 256 bytes, a few merges, the control tokens, and names without a meaning up to Nano's size.
VocabData small_vocab(int64_t n_tokens) {
  VocabData vocab;
  for (int byte = 0; byte < 256; ++byte) {
    vocab.tokens.push_back(byte_stand_in(static_cast<uint8_t>(byte)));
  }
  for (const char* merge : {"t h", "th e", "Ġ the", "1 2"}) {
    const std::string text(merge);
    const size_t gap = text.find(' ');
    vocab.merges.push_back(text);
    vocab.tokens.push_back(text.substr(0, gap) + text.substr(gap + 1));
  }
  vocab.token_types.assign(vocab.tokens.size(), kTokenTypeNormal);
  for (const auto text : {spelling::kBos, spelling::kEos, spelling::kUser, spelling::kAssistant,
                          spelling::kThinkOpen, spelling::kThinkClose, spelling::kDsml}) {
    vocab.tokens.emplace_back(text);
    vocab.token_types.push_back(kTokenTypeControl);
  }
  while (static_cast<int64_t>(vocab.tokens.size()) < n_tokens) {
    vocab.tokens.push_back("<" + std::to_string(vocab.tokens.size()) + ">");
    vocab.token_types.push_back(kTokenTypeUserDefined);
  }
  return vocab;
}

gguf::Layout nano_layout() {
  gguf::Layout layout;
  const ModelConfig& config = nano_config();
  add_metadata(layout, config, small_vocab(config.vocab_size), {.n_draft_blocks = 1});
  Weights names;
  names.mtp.emplace();
  visit_weights(config, names, [&](const TensorSpec& spec, ConstTensor&) {
    layout.add_tensor(spec.name, accepted_types(spec.kind)[0], spec.shape);
  });
  return layout;
}

// One element of an array of strings or numbers in a key's payload: type u32, count u64, elements.
void edit_array(EditableHeader::Key& key, Input& input) {
  const auto index = input.take<uint16_t>();
  const auto text = input.take_bytes(input.take<uint8_t>() % 64);
  if (key.payload.size() < 12) return;
  Input array(key.payload);
  const auto element = array.take<uint32_t>();
  const auto count = array.take<uint64_t>();
  if (count == 0) return;
  if (element != static_cast<uint32_t>(gguf::ValueType::kString)) {
    const size_t at = 12 + index % count * 4;
    if (at + text.size() <= key.payload.size()) key.payload.replace(at, text.size(), text);
    return;
  }
  for (uint64_t i = 0; i < index % count; ++i) array.take_bytes(array.take<uint64_t>());
  const size_t at = key.payload.size() - array.rest().size();
  const size_t n_old = 8 + static_cast<size_t>(array.take<uint64_t>());
  std::string replacement;
  put_string(replacement, text);
  if (at + n_old <= key.payload.size()) key.payload.replace(at, n_old, replacement);
}

void edit_key(EditableHeader& header, uint8_t what, Input& input) {
  if (header.keys.empty()) return;
  const size_t index = input.take<uint8_t>() % header.keys.size();
  EditableHeader::Key& key = header.keys[index];
  switch (what % 6) {
    case 0:
      header.keys.erase(header.keys.begin() + static_cast<std::ptrdiff_t>(index));
      return;
    case 1: {  // another type, one past the last included, and as many bytes as that takes
      key.type = input.take<uint8_t>() % (gguf::kMaxValueType + 2);
      const bool scalar = key.type <= gguf::kMaxValueType &&
                          gguf::value_bytes(static_cast<gguf::ValueType>(key.type)) > 0;
      const int64_t n = scalar ? gguf::value_bytes(static_cast<gguf::ValueType>(key.type)) : 16;
      key.payload = std::string(input.take_bytes(static_cast<size_t>(n)));
      return;
    }
    case 2:
      key.type = static_cast<uint32_t>(gguf::ValueType::kString);
      key.payload.clear();
      put_string(key.payload, input.take_bytes(input.take<uint8_t>() % 64));
      return;
    case 3: {
      const auto at = input.take<uint16_t>() % (key.payload.size() + 1);
      const std::string_view bytes = input.take_bytes(input.take<uint8_t>() % 16);
      key.payload.replace(at, bytes.size(), bytes);
      return;
    }
    case 4:
      edit_array(key, input);
      return;
    default: {
      EditableHeader::Key copy = key;
      const std::string_view name = input.take_bytes(input.take<uint8_t>() % 48);
      if (!name.empty()) copy.name = std::string(name);
      header.keys.push_back(std::move(copy));
    }
  }
}

void edit_tensor(EditableHeader& header, uint8_t what, Input& input) {
  if (header.tensors.empty()) return;
  const size_t index = input.take<uint16_t>() % header.tensors.size();
  EditableHeader::Tensor& tensor = header.tensors[index];
  switch (what % 6) {
    case 0:
      header.tensors.erase(header.tensors.begin() + static_cast<std::ptrdiff_t>(index));
      return;
    case 1:
      tensor.dims.resize(input.take<uint8_t>() % 6);
      return;
    case 2:
      if (tensor.dims.empty()) return;
      tensor.dims[input.take<uint8_t>() % tensor.dims.size()] = input.take<uint64_t>();
      return;
    case 3:
      tensor.type = input.take<uint8_t>();
      return;
    case 4:
      tensor.offset = input.take<uint64_t>();
      return;
    default: {
      const std::string_view name = input.take_bytes(input.take<uint8_t>() % 48);
      if (name.empty()) {
        std::swap(tensor.name, header.tensors[(index + 1) % header.tensors.size()].name);
      } else {
        tensor.name = std::string(name);
      }
    }
  }
}

}  // namespace

std::string EditableHeader::bytes() const {
  std::string out;
  put(out, gguf::kMagic);
  put(out, gguf::kVersion);
  put(out, tensors.size() + n_extra_tensors);
  put(out, keys.size() + n_extra_keys);
  for (const Key& key : keys) {
    put_string(out, key.name);
    put(out, key.type);
    out += key.payload;
  }
  for (const Tensor& tensor : tensors) {
    put_string(out, tensor.name);
    put(out, static_cast<uint32_t>(tensor.dims.size()));
    for (const uint64_t dim : tensor.dims) put(out, dim);
    put(out, tensor.type);
    put(out, tensor.offset);
  }
  return out;
}

const EditableHeader& nano_header() {
  static const EditableHeader made = [] {
    const gguf::Layout layout = nano_layout();
    const std::vector<std::byte> header = layout.header();
    const auto file = gguf::File::parse(
        with_zero_data({reinterpret_cast<const char*>(header.data()), header.size()},
                       static_cast<size_t>(layout.file_bytes())),
        "nano");
    DS4_CHECK(file.has_value());
    EditableHeader out;
    for (const gguf::KeyValue& kv : file->metadata()) {
      const auto payload = kv.value.payload();
      out.keys.push_back({std::string(kv.key),
                          static_cast<uint32_t>(kv.value.type()),
                          {reinterpret_cast<const char*>(payload.data()), payload.size()}});
    }
    for (const gguf::TensorInfo& info : file->tensors()) {
      out.tensors.push_back({std::string(info.name),
                             {info.dims.begin(), info.dims.end()},
                             info.type_id,
                             static_cast<uint64_t>(info.offset - file->data_start())});
    }
    return out;
  }();
  return made;
}

void edit(EditableHeader& header, Input& input) {
  while (!input.empty()) {
    const auto what = input.take<uint8_t>();
    if (what < 112) {
      edit_key(header, what, input);
    } else if (what < 224) {
      edit_tensor(header, what, input);
    } else if (what < 240) {
      header.n_extra_keys += input.take<uint64_t>();
    } else {
      header.n_extra_tensors += input.take<uint64_t>();
    }
  }
}

std::span<const std::byte> with_zero_data(const std::string& header, size_t file_bytes) {
  // Pages of `pages` that hold data were never written: they all are the kernel's page of zeros.
  static size_t n_dirty = 0;
  static std::byte* const pages = [] {
    void* mapped = mmap(nullptr, kDataBytesMax, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    DS4_CHECK(mapped != MAP_FAILED);
    return static_cast<std::byte*>(mapped);
  }();
  DS4_CHECK(header.size() <= kDataBytesMax && file_bytes <= kDataBytesMax);
  if (n_dirty > header.size()) std::memset(pages + header.size(), 0, n_dirty - header.size());
  std::memcpy(pages, header.data(), header.size());
  n_dirty = header.size();
  return {pages, std::max(header.size(), file_bytes)};
}

size_t nano_file_bytes() {
  static const auto made = static_cast<size_t>(nano_layout().file_bytes());
  return made;
}

}  // namespace ds4::fuzz
