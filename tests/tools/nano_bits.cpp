// nano_bits: one line for each recipe, profile and short reference prompt of Nano with a hash of
// the logits the cpu backend gives, so that two machines can be held against each other bit for bit
// (step arm64 of `make ci`: AVX2 here, NEON under an emulator). Reads the build folder's Nano
// files.
//
// Exit codes: 0 done, 1 failed.
#include <fmt/format.h>
#include <xxhash.h>

#include <cstdio>
#include <exception>

#include "tests/support/nano.h"
#include "tests/support/runner.h"

namespace ds4::test {
namespace {

// One that ends within the first compressed rows, and one that fills the window and leaves it.
constexpr const char* kPrompts[] = {"short8", "win129"};

void print_bits(const char* recipe, const char* profile, const Precision& precision) {
  const Model model = open_nano(recipe);
  const NanoReference reference = NanoReference::open();
  Runner runner(BackendKind::kCpu, model.config(), model.weights(),
                {.precision = precision, .max_rows = 64, .max_logit_rows = 64});
  for (const char* name : kPrompts) {
    const ReferencePrompt& p = reference.prompt(name);
    const int64_t n = static_cast<int64_t>(p.ids.size());
    KvCache cache = runner.new_cache(n + 1);
    std::vector<float> logits = runner.prefill(cache, p.ids, std::min<int64_t>(n, 16));
    const std::vector<float> next = runner.decode(cache, p.ids.front());
    logits.insert(logits.end(), next.begin(), next.end());
    fmt::print("{} {} {} {:016x}\n", recipe, profile, p.name,
               XXH3_64bits(logits.data(), logits.size() * sizeof(float)));
    std::fflush(stdout);
  }
}

int run() {
  for (const char* recipe : {"exact", "mxfp4", "q8_0", "q4", "q2"}) {
    print_bits(recipe, "official", Precision::official());
  }
  print_bits("exact", "hf32", Precision::hf32());
  return 0;
}

}  // namespace
}  // namespace ds4::test

int main() {
  try {
    return ds4::test::run();
  } catch (const std::exception& e) {
    fmt::print(stderr, "nano_bits: {}\n", e.what());
    return 1;
  }
}
