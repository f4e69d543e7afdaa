// dump_tensors FILE.gguf: what our reader and our decoders see in a file, one JSON object a line,
// for a comparison with other readers (scripts/check_readers.sh):
//
//   {"version":3,"alignment":32,"data_start":N,"n_keys":N,"n_tensors":N}
//   {"key":"general.name","type":"string","value":"DeepSeek V4 Nano"}
//   {"tensor":"output.weight","type":"Q8_0","dims":[256,4096],"offset":N,"sha256":"..."}
//
// dims are in the file's order, the row length first; offset counts from the start of the file.
// sha256 is that of the decoded values, f32 little-endian in row order, or of the bytes of an I32
// tensor. When some value is -0, sha256_no_sign is the hash with +0 in its place: not every reader
// keeps that sign.
//
// Exit codes: 0 done, 1 the file cannot be read, 2 wrong command line.
#include <fmt/format.h>
#include <openssl/evp.h>

#include <bit>
#include <cstdio>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "gguf/file.h"
#include "quant/codec.h"

namespace {

using namespace ds4;
using Json = nlohmann::ordered_json;

static_assert(std::endian::native == std::endian::little);

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    DS4_CHECK(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
  }

  void add(const void* data, size_t n_bytes) {
    DS4_CHECK(EVP_DigestUpdate(context_.get(), data, n_bytes) == 1);
  }

  std::string hex() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int n = 0;
    DS4_CHECK(EVP_DigestFinal_ex(context_.get(), digest, &n) == 1);
    std::string text;
    for (unsigned int i = 0; i < n; ++i) text += fmt::format("{:02x}", digest[i]);
    return text;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

void print(const Json& line) {
  fmt::print("{}\n", line.dump(-1, ' ', false, Json::error_handler_t::replace));
}

template <typename T>
Json json_or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

// Null for what no model file has: nested arrays, arrays of bool, integers above 2^63.
Json value_json(const gguf::Value& value) {
  if (value.type() == gguf::ValueType::kString) return json_or_null(value.as_string());
  if (value.type() == gguf::ValueType::kBool) return json_or_null(value.as_bool());
  if (const auto integer = value.as_int()) return *integer;
  if (const auto number = value.as_float()) return *number;
  if (const auto strings = value.as_strings()) return *strings;
  if (const auto integers = value.as_ints()) return *integers;
  return json_or_null(value.as_floats());
}

// Adds the hashes of a tensor's decoded values to its line.
void hash_values(const gguf::TensorInfo& tensor, DType type, Json& line) {
  const ConstTensor view = tensor.view();
  const int64_t n = view.n_cols();
  std::vector<float> row(static_cast<size_t>(n));
  Sha256 hash, hash_no_sign;
  bool has_negative_zero = false;
  for (int64_t r = 0; r < view.n_rows(); ++r) {
    decode_row(type, view.row_data(r), row.data(), n);
    hash.add(row.data(), row.size() * sizeof(float));
    for (float& x : row) {
      if (std::bit_cast<uint32_t>(x) == 0x80000000U) {
        has_negative_zero = true;
        x = 0.0F;
      }
    }
    hash_no_sign.add(row.data(), row.size() * sizeof(float));
  }
  line["sha256"] = hash.hex();
  if (has_negative_zero) line["sha256_no_sign"] = hash_no_sign.hex();
}

void print_tensor(const gguf::TensorInfo& tensor) {
  Json line{{"tensor", tensor.name},
            {"type", gguf::type_name(tensor.type_id)},
            {"dims", tensor.dims},
            {"offset", tensor.offset}};
  const auto type = tensor.dtype();
  if (type == DType::kI32) {
    Sha256 hash;
    hash.add(tensor.data, static_cast<size_t>(*tensor.bytes));
    line["sha256"] = hash.hex();
  } else if (type && *type != DType::kI64) {
    hash_values(tensor, *type, line);
  }
  print(line);
}

Result<void> dump(const std::string& path) {
  DS4_TRY(const gguf::File file, gguf::File::open(path));
  print({{"version", gguf::kVersion},
         {"alignment", file.alignment()},
         {"data_start", file.data_start()},
         {"n_keys", file.metadata().size()},
         {"n_tensors", file.tensors().size()}});
  for (const gguf::KeyValue& entry : file.metadata()) {
    print({{"key", entry.key},
           {"type", entry.value.type_name()},
           {"value", value_json(entry.value)}});
  }
  for (const gguf::TensorInfo& tensor : file.tensors()) print_tensor(tensor);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: dump_tensors FILE.gguf\n");
    return 2;
  }
  try {
    const auto done = dump(argv[1]);
    if (done) return 0;
    fmt::print(stderr, "dump_tensors: {}\n", done.error().message);
  } catch (const std::exception& e) {
    fmt::print(stderr, "dump_tensors: {}\n", e.what());
  }
  return 1;
}
