// The walk by which ds4-quantize checks a file, against the engine's own, and on files that are
// broken in one place.
#include "apps/quantize/check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <numeric>
#include <vector>

#include "engine/session.h"
#include "quantizer/synth.h"
#include "tests/support/runner.h"

namespace ds4 {
namespace {

namespace fs = std::filesystem;
using test::must;

class CheckModel : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = fs::path(DS4_BINARY_DIR) / "check_test";
    fs::create_directories(folder_);
    ConvertProgress progress;
    must(must(Synth::plan({.config = nano_config()}))
             .run(path(), {.overwrite = true}, {}, progress));
    auto mapping = must(MappedFile::open(path()));
    bytes_.assign(mapping.bytes().begin(), mapping.bytes().end());
  }
  static void TearDownTestSuite() { fs::remove_all(folder_); }
  static std::string path() { return (folder_ / "nano.gguf").string(); }

  // The model with every value of an F32 tensor replaced.
  static ModelCheck check_with(const char* tensor, float value) {
    std::vector<std::byte> bytes = bytes_;
    auto file = must(gguf::File::parse(bytes, "patched.gguf"));
    const gguf::TensorInfo* info = file.find_tensor(tensor);
    for (int64_t at = 0; at < *info->bytes; at += 4) {
      std::memcpy(bytes.data() + info->offset + at, &value, 4);
    }
    const Model model = must(Model::from_gguf(std::move(file)));
    return must(check_model(model, {.n_tokens = 40, .n_decode = 2}));
  }

  static inline fs::path folder_;
  static inline std::vector<std::byte> bytes_;
};

// Every routing of every token is counted, and the last logits are those of a session that read the
// same tokens, bit for bit.
TEST_F(CheckModel, IsTheEnginesWalkInPieces) {
  const Model model = must(Model::open(path()));
  const ModelCheck found = must(check_model(model, {.n_tokens = 150, .n_decode = 0, .seed = 3}));
  ASSERT_EQ(found.layers.size(), 8u);
  EXPECT_EQ(found.n_tokens, 150);
  for (const LayerCheck& layer : found.layers) {
    EXPECT_EQ(std::accumulate(layer.expert_tokens.begin(), layer.expert_tokens.end(), int64_t{0}),
              150 * 4);
  }
  EXPECT_TRUE(found.verdict(1000));

  SynthBits bits(3);
  std::vector<Token> prompt;
  for (int i = 0; i < 150; ++i) prompt.push_back(static_cast<Token>(bits.below(4096)));
  const auto engine = must(Engine::create(must(Model::open(path())), {}));
  Session session = must(Session::create(*engine, {.ctx_tokens = 200}));
  must(session.sync(prompt));
  double max_logit = 0;
  for (const float logit : session.logits()) {
    max_logit = std::max(max_logit, std::abs(static_cast<double>(logit)));
  }
  EXPECT_EQ(found.max_logit, max_logit);
}

TEST_F(CheckModel, NamesTheFirstLayerThatIsNotFinite) {
  const ModelCheck found =
      check_with("blk.3.attn_norm.weight", std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(found.verdict(1000).error().message, "layer 3: NaN or infinite values");
  EXPECT_EQ(found.verdict(1000).error().code, ErrorCode::kNonFinite);
  const ModelCheck head = check_with("output_norm.weight", std::numeric_limits<float>::infinity());
  EXPECT_EQ(head.verdict(1000).error().message, "the logits are not finite");
  EXPECT_NE(describe_check(head).find("logits NOT FINITE"), std::string::npos);
}

// Streams that grow a thousandfold in one layer are above the bound there and after it.
TEST_F(CheckModel, NamesTheFirstLayerAboveTheBound) {
  const ModelCheck found = check_with("blk.5.hc_attn_scale.weight", 1e4f);
  EXPECT_TRUE(found.verdict(1e6)) << "a mix is an average, whatever its scale";
  const ModelCheck loud = check_with("blk.5.attn_kv_a_norm.weight", 1e6f);
  const auto verdict = loud.verdict(1000);
  ASSERT_FALSE(verdict);
  EXPECT_EQ(verdict.error().message.find("layer 5: max |hidden| "), 0u) << verdict.error().message;
}

}  // namespace
}  // namespace ds4
