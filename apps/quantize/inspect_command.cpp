#include "inspect_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "base/printable.h"
#include "gguf/file.h"
#include "model/model.h"
#include "report.h"

namespace ds4 {
namespace {

constexpr size_t kShownBytes = 72;  // of a text value

std::string shown(std::string_view text) {
  const bool cut = text.size() > kShownBytes;
  std::string out = without_controls(text.substr(0, kShownBytes));
  std::replace(out.begin(), out.end(), '\n', ' ');
  return cut ? out + fmt::format("... ({} bytes)", text.size()) : out;
}

template <typename T>
std::string list_of(const std::vector<T>& values) {
  constexpr size_t kShown = 8;
  const auto n = static_cast<std::ptrdiff_t>(std::min(kShown, values.size()));
  return fmt::format("[{}]{} {}", values.size(), ":",
                     fmt::join(values.begin(), values.begin() + n, " ")) +
         (values.size() > kShown ? " ..." : "");
}

std::string text_of(const gguf::Value& value) {
  if (const auto text = value.as_string()) return shown(*text);
  if (const auto flag = value.as_bool()) return *flag ? "true" : "false";
  if (const auto number = value.as_int()) return fmt::format("{}", *number);
  if (const auto number = value.as_float()) return fmt::format("{}", static_cast<float>(*number));
  if (const auto numbers = value.as_ints()) return list_of(*numbers);
  if (const auto numbers = value.as_floats()) return list_of(*numbers);
  if (const auto texts = value.as_strings()) return shown(list_of(*texts));
  return fmt::format("{} bytes", value.payload().size());
}

// Bytes between tensors and after the last one that belong to none.
int64_t padding_of(const gguf::File& file) {
  int64_t used = 0;
  for (const gguf::TensorInfo& info : file.tensors()) used += info.bytes.value_or(0);
  return file.file_bytes() - file.data_start() - used;
}

void print_types(const gguf::File& file) {
  std::map<std::string, std::pair<int, int64_t>> uses;
  for (const gguf::TensorInfo& info : file.tensors()) {
    auto& [n, bytes] = uses[gguf::type_name(info.type_id)];
    ++n;
    bytes += info.bytes.value_or(0);
  }
  for (const auto& [type, use] : uses) {
    fmt::print("  {:<8} {:>5} tensors {:>15} bytes\n", type, use.first, use.second);
  }
}

// Whether ds4 would run it, and if not, why.
void print_model(const std::string& path) {
  const auto model = Model::open(path, {.allow_slice = true});
  if (model) {
    fmt::print("model      DeepSeek V4 {}{}\n", model->config().name,
               model->has_mtp() ? " with its MTP block" : "");
  } else {
    fmt::print("model      none that ds4 runs: {}\n", without_controls(model.error().message));
  }
}

Result<void> inspect(const InspectFlags& f) {
  DS4_TRY(const gguf::File file, gguf::File::open(f.file));
  fmt::print("file       {}\nsize       {} bytes: {} of header and keys, {} of padding\n",
             without_controls(file.path()), file.file_bytes(), file.data_start(), padding_of(file));
  fmt::print("container  GGUF version 3, alignment {}, {} keys, {} tensors\n", file.alignment(),
             file.metadata().size(), file.tensors().size());
  print_model(f.file);
  print_types(file);
  for (const gguf::KeyValue& entry : file.metadata()) {
    const bool always = entry.key.starts_with("general.") || entry.key.starts_with("quantize.");
    if (!f.keys && !always) continue;
    fmt::print("key        {} {} = {}\n", shown(entry.key), entry.value.type_name(),
               text_of(entry.value));
  }
  if (!f.tensors) return {};
  for (const gguf::TensorInfo& info : file.tensors()) {
    fmt::print("tensor     {} {} [{}] at {} {} bytes\n", shown(info.name),
               gguf::type_name(info.type_id), fmt::join(info.dims, ", "), info.offset,
               info.bytes.value_or(0));
  }
  return {};
}

}  // namespace

CLI::App* add_inspect_command(CLI::App& app, InspectFlags& f) {
  CLI::App* inspect = app.add_subcommand("inspect", "say what is in a GGUF file");
  inspect->add_option("file", f.file, "GGUF file")->required()->type_name("FILE");
  inspect->add_flag("--keys", f.keys, "all metadata, not only general.* and quantize.*");
  inspect->add_flag("--tensors", f.tensors, "every tensor: name, type, dims, offset, bytes");
  return inspect;
}

int run_inspect(const InspectFlags& flags) {
  const auto done = inspect(flags);
  if (done) return 0;
  report_failure(done.error());
  return kExitFailed;
}

}  // namespace ds4
