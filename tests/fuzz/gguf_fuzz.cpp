// A model file from its first byte to a tokenizer. An input that begins with "GGUF" is the file
// itself; any other is a list of edits to a right Nano header (nano_header.h), which reach the
// config reader, the vocabulary and the binding of weights.
//
// Held: a file opens or gives an error that names it; an opened file's values and tensor bytes can
// all be read; an opened model's fields have their shapes; its vocabulary makes a tokenizer that
// gives text back, or an error.
#include <string>
#include <tuple>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "model/model.h"
#include "model/tensor_table.h"
#include "tests/fuzz/nano_header.h"
#include "tokenizer/tokenizer.h"

namespace ds4 {
namespace {

using fuzz::Input;

// Reads everything, so that a bad length cannot hide in a value nobody looked at.
void read_values(const gguf::File& file) {
  for (const gguf::KeyValue& kv : file.metadata()) {
    const auto& value = kv.value;
    DS4_CHECK(!value.type_name().empty());
    (void)value.as_int();
    (void)value.as_float();
    (void)value.as_bool();
    (void)value.as_ints();
    (void)value.as_floats();
    if (const auto text = value.as_string()) DS4_CHECK(text->size() <= value.payload().size());
    if (const auto texts = value.as_strings()) {
      size_t n_bytes = 0;
      for (const std::string_view text : *texts) n_bytes += text.size();
      DS4_CHECK(n_bytes <= value.payload().size());
    }
  }
}

// First and last byte of each tensor: with an address sanitizer, proof that they are in the file.
void read_tensors(const gguf::File& file) {
  unsigned sum = 0;
  for (const gguf::TensorInfo& info : file.tensors()) {
    DS4_CHECK(!gguf::type_name(info.type_id).empty());
    DS4_CHECK(file.find_tensor(info.name) == &info);
    if (!info.bytes) continue;
    DS4_CHECK(info.offset >= 0 && *info.bytes > 0);
    DS4_CHECK(info.offset + *info.bytes <= file.file_bytes());
    sum += std::to_integer<unsigned>(info.data[0]);
    sum += std::to_integer<unsigned>(info.data[*info.bytes - 1]);
    if (info.dtype()) DS4_CHECK(info.view().shape().rank() > 0);
  }
  volatile unsigned sink = sum;
  (void)sink;
}

void check_model(const Model& model) {
  Weights expected;
  if (model.has_mtp()) expected.mtp.emplace();
  visit_weights(model.config(), expected, [&](const TensorSpec& spec, ConstTensor&) {
    const gguf::TensorInfo* info = model.file().find_tensor(spec.name);
    DS4_CHECK(info != nullptr && info->dtype());
    DS4_CHECK(info->view().shape() == spec.shape);
  });
  DS4_CHECK(!model.general_name().empty() || model.file().find("general.name") != nullptr);
  (void)model.effort_profile();
  (void)model.routed_bits();
  DS4_CHECK(!model.tensor_types().empty());

  // Most edits leave the vocabulary alone, and this is half the time of an execution.
  static VocabData last;
  const VocabData& vocab = model.vocab();
  if (std::tie(vocab.tokens, vocab.merges, vocab.token_types) ==
      std::tie(last.tokens, last.merges, last.token_types)) {
    return;
  }
  last = vocab;
  const auto tokenizer = Tokenizer::create(vocab);
  if (!tokenizer) return;
  const std::string text = "the theme: 12 <think> 世界\n";
  DS4_CHECK(tokenizer->decode(tokenizer->encode_text(text)) == text);
  DS4_CHECK(tokenizer->decode(tokenizer->encode_rendered(text)) == text);
}

void check_file(std::span<const std::byte> bytes) {
  auto file = gguf::File::parse(bytes, "input.gguf");
  if (!file) {
    DS4_CHECK(file.error().message.find("input.gguf") != std::string::npos);
    return;
  }
  read_values(*file);
  read_tensors(*file);
  const auto model = Model::from_gguf(std::move(*file));
  if (!model) {
    DS4_CHECK(model.error().message.find("input.gguf") != std::string::npos);
    return;
  }
  check_model(*model);
}

}  // namespace
}  // namespace ds4

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ds4;
  log::set_level(log::Level::kOff);
  Input input(data, size);
  if (input.rest().starts_with("GGUF")) {
    check_file({reinterpret_cast<const std::byte*>(data), size});
    return 0;
  }
  fuzz::EditableHeader header = fuzz::nano_header();
  // The first two bytes cut the file short, by KiB; mostly by nothing.
  const size_t n_cut = input.take<uint16_t>() * size_t{1024};
  fuzz::edit(header, input);
  const size_t whole = fuzz::nano_file_bytes();
  check_file(fuzz::with_zero_data(header.bytes(), whole - std::min(n_cut, whole)));
  return 0;
}
