#pragma once
// The Nano model and its reference data, for tests. GGUF files are made by the build (target
// nano_models) from models/nano, one for each recipe.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/model.h"
#include "safetensors/checkpoint.h"
#include "tokenizer/token.h"

namespace ds4::test {

inline std::string nano_gguf(const std::string& recipe) {
  return std::string(DS4_BINARY_DIR) + "/nano/nano-" + recipe + ".gguf";
}

inline Model open_nano(const std::string& recipe) {
  auto model = Model::open(nano_gguf(recipe));
  if (!model) throw std::runtime_error(model.error().message);  // a broken build, not a failed test
  return std::move(*model);
}

// One prompt of models/nano/reference.json. Logit rows belong to the last positions.
struct ReferencePrompt {
  std::string name;
  std::vector<Token> ids;
  int64_t n_logit_rows = 0;
};

// models/nano/reference.safetensors: an independent implementation's logits
// (models/nano/README.md).
class NanoReference {
 public:
  static NanoReference open() {
    const std::string folder = std::string(DS4_SOURCE_DIR) + "/models/nano/";
    auto file = safetensors::Checkpoint::open(folder + "reference.safetensors");
    if (!file) throw std::runtime_error(file.error().message);
    NanoReference reference(std::move(*file));
    std::ifstream stream(folder + "reference.json");
    for (const auto& entry : nlohmann::json::parse(stream)) {
      ReferencePrompt prompt;
      prompt.name = entry.at("name");
      prompt.n_logit_rows = entry.at("logits_for_last");
      prompt.ids = reference.ids(prompt.name);
      reference.prompts_.push_back(std::move(prompt));
    }
    return reference;
  }

  const std::vector<ReferencePrompt>& prompts() const { return prompts_; }
  const ReferencePrompt& prompt(const std::string& name) const {
    for (const ReferencePrompt& p : prompts_) {
      if (p.name == name) return p;
    }
    throw std::runtime_error("no reference prompt " + name);
  }

  bool has(const std::string& name) const { return file_.find(name) != nullptr; }

  // "short1.logits", "win127.official_draft_logits", "hidden24.0", ...
  std::vector<float> values(const std::string& name) const {
    const safetensors::TensorInfo* info = file_.find(name);
    if (info == nullptr) throw std::runtime_error("no reference tensor " + name);
    return copy<float>(*info);
  }

 private:
  explicit NanoReference(safetensors::Checkpoint file) : file_(std::move(file)) {}

  std::vector<Token> ids(const std::string& name) const {
    const safetensors::TensorInfo* info = file_.find(name + ".ids");
    if (info == nullptr) throw std::runtime_error("no ids of " + name);
    return copy<Token>(*info);
  }

  template <typename T>
  static std::vector<T> copy(const safetensors::TensorInfo& info) {
    std::vector<T> out(static_cast<size_t>(info.bytes) / sizeof(T));
    std::memcpy(out.data(), info.data, static_cast<size_t>(info.bytes));
    return out;
  }

  safetensors::Checkpoint file_;
  std::vector<ReferencePrompt> prompts_;
};

}  // namespace ds4::test
