#pragma once
// The models and backends that invariants of the walk are tested on: Nano (trained, one file) and a
// tiny random model (every kind of layer and weight), each on `reference` and on `cpu`.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/kv_state.h"
#include "tests/support/nano.h"
#include "tests/support/runner.h"
#include "tests/support/tiny_model.h"

namespace ds4::test {

struct WalkCase {
  BackendKind backend = BackendKind::kCpu;
  bool tiny = false;
};

inline std::string walk_case_name(const testing::TestParamInfo<WalkCase>& info) {
  return std::string(backend_name(info.param.backend)) + (info.param.tiny ? "_tiny" : "_nano");
}

#ifdef DS4_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

#ifdef __SANITIZE_THREAD__
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif

// Under sanitizers Nano on `reference` is left out: it is the slowest pair, and the three others
// run the same code on the same kinds of layer. The thread sanitizer makes a token of Nano take 75
// ms; it meets Nano in session_test.cpp.
inline auto walk_cases() {
  std::vector<WalkCase> cases = {{BackendKind::kReference, true}, {BackendKind::kCpu, true}};
  if (!kThreadSanitizer) cases.push_back({BackendKind::kCpu, false});
  if (!kSanitized) cases.push_back({BackendKind::kReference, false});
  return testing::ValuesIn(cases);
}

class WalkTest : public testing::TestWithParam<WalkCase> {
 protected:
  WalkTest() {
    if (GetParam().tiny) {
      tiny_ = std::make_unique<TinyModel>();
      tokens_ = random_tokens(5000, tiny_->config().vocab_size, 7);
    } else {
      nano_ = std::make_unique<Model>(open_nano("q8_0"));
      tokens_ = NanoReference::open().prompt("long6000").ids;
    }
  }

  bool tiny() const { return GetParam().tiny; }
  const ModelConfig& config() const { return tiny() ? tiny_->config() : nano_->config(); }
  const Weights& weights() const { return tiny() ? tiny_->weights() : nano_->weights(); }
  // The first n tokens of one fixed text.
  std::span<const Token> prompt(int64_t n) const {
    return std::span(tokens_).first(static_cast<size_t>(n));
  }
  // n tokens of another one.
  std::vector<Token> other(int64_t n, uint32_t seed = 99) const {
    return random_tokens(n, config().vocab_size, seed);
  }
  Runner runner(int64_t max_rows = 512, int n_threads = 0) const {
    return Runner(
        GetParam().backend, config(), weights(),
        {.precision = Precision::official(), .n_threads = n_threads, .max_rows = max_rows});
  }
  std::vector<float> state(const KvCache& cache) const {
    return kv_state(cache, config().compress_ratios);
  }

 private:
  std::unique_ptr<TinyModel> tiny_;
  std::unique_ptr<Model> nano_;
  std::vector<Token> tokens_;
};

}  // namespace ds4::test
