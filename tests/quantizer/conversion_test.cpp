// Nano through the converter. The exact recipe must keep every value of the checkpoint; the check
// decodes both sides with its own few lines, from the definitions of the number formats.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>

#include "base/scalar.h"
#include "model/model.h"
#include "quant/codec.h"
#include "quantizer/converter.h"
#include "quantizer/hf_names.h"

namespace ds4 {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNano = DS4_SOURCE_DIR "/models/nano";

class NanoConversion : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        fs::path(DS4_BINARY_DIR) / (std::string("conversion_") +
                                    testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  Result<void> convert(const std::string& out, Recipe recipe, int n_threads = 2,
                       std::stop_token stop = {}) {
    DS4_TRY(const Conversion conversion,
            Conversion::plan({.hf_dir = kNano, .recipe = recipe, .overrides = {}}));
    ConvertProgress progress;
    DS4_TRY_VOID(conversion.run(path(out), {.n_threads = n_threads}, std::move(stop), progress));
    EXPECT_EQ(progress.bytes_done, conversion.layout().tensor_bytes());
    EXPECT_EQ(progress.tensors_done, conversion.layout().n_tensors());
    return {};
  }
  fs::path folder_;
};

// A checkpoint tensor as f32, by the definitions alone.
std::vector<float> source_values(const safetensors::Checkpoint& hf, const std::string& name) {
  using safetensors::ElementType;
  const auto* info = hf.find(name);
  EXPECT_NE(info, nullptr) << name;
  const auto* bytes = reinterpret_cast<const uint8_t*>(info->data);
  const auto* scale = hf.find(hf_scale_name(name));
  const auto* scales = scale == nullptr ? nullptr : reinterpret_cast<const uint8_t*>(scale->data);
  const int64_t n = info->n_elements();
  std::vector<float> values;
  if (info->type == ElementType::kI8) {
    const int64_t cols = 2 * info->shape[1];
    for (int64_t i = 0; i < 2 * n; ++i) {
      const uint8_t code = i % 2 == 0 ? bytes[i / 2] & 15 : bytes[i / 2] >> 4;
      const int64_t group = i / cols * (cols / 32) + i % cols / 32;
      values.push_back(e2m1_to_f32(code) * std::ldexp(1.0f, scales[group] - 127));
    }
  } else if (info->type == ElementType::kF8E4M3) {
    const int64_t cols = info->shape[1];
    for (int64_t i = 0; i < n; ++i) {
      const int64_t tile = i / cols / 128 * ((cols + 127) / 128) + i % cols / 128;
      values.push_back(e4m3_to_f32(bytes[i]) * std::ldexp(1.0f, scales[tile] - 127));
    }
  } else {
    for (int64_t i = 0; i < n; ++i) {
      uint32_t bits = 0;
      if (info->type == ElementType::kBF16) {
        std::memcpy(reinterpret_cast<char*>(&bits) + 2, bytes + 2 * i, 2);
      } else {
        std::memcpy(&bits, bytes + 4 * i, 4);
      }
      values.push_back(std::bit_cast<float>(bits));
    }
  }
  return values;
}

// An MXFP4, BF16 or F32 tensor of the file as f32, by the definitions alone.
std::vector<float> file_values(const ConstTensor& t) {
  std::vector<float> values;
  const auto* bytes = reinterpret_cast<const uint8_t*>(t.data());
  const int64_t n = t.shape().n_elements();
  if (t.dtype() == DType::kMXFP4) {
    for (int64_t i = 0; i < n; ++i) {
      const uint8_t* block = bytes + i / 32 * 17;
      const int64_t j = i % 32;
      const uint8_t code = j < 16 ? block[1 + j] & 15 : block[1 + j - 16] >> 4;
      values.push_back(e2m1_to_f32(code) * std::ldexp(1.0f, block[0] - 127));
    }
    return values;
  }
  const size_t each = t.dtype() == DType::kF32 ? 4 : 2;
  EXPECT_TRUE(t.dtype() == DType::kF32 || t.dtype() == DType::kBF16);
  for (int64_t i = 0; i < n; ++i) {
    uint32_t bits = 0;
    std::memcpy(reinterpret_cast<char*>(&bits) + (4 - each), bytes + static_cast<size_t>(i) * each,
                each);
    values.push_back(std::bit_cast<float>(bits));
  }
  return values;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST_F(NanoConversion, ExactKeepsEveryValueOfEveryTensor) {
  const auto done = convert("exact.gguf", Recipe::kExact);
  ASSERT_TRUE(done) << done.error().message;
  const auto model = Model::open(path("exact.gguf"));
  ASSERT_TRUE(model) << model.error().message;
  const auto hf = safetensors::Checkpoint::open(kNano);
  ASSERT_TRUE(hf);
  Weights names;
  names.mtp.emplace();
  std::set<std::string> used;
  int64_t n_values = 0;
  visit_weights(nano_config(), names, [&](const TensorSpec& spec, ConstTensor&) {
    const ConstTensor tensor = model->file().find_tensor(spec.name)->view();
    const std::string name = hf_name(spec.name);
    if (spec.kind == TensorKind::kHashIds) {
      used.insert(name);
      const auto* ids = hf->find(name);
      for (int64_t i = 0; i < ids->n_elements(); ++i) {
        int64_t id = 0;
        std::memcpy(&id, ids->data + 8 * i, 8);
        ASSERT_EQ(tensor.row<int32_t>(0)[i], id) << spec.name;
      }
      return;
    }
    const int64_t n = is_routed(spec.kind) ? spec.shape[0] : 1;
    for (int64_t e = 0; e < n; ++e) {
      const std::string source = n == 1 ? name : hf_expert_name(name, e);
      used.insert(source);
      if (hf->find(hf_scale_name(source)) != nullptr) used.insert(hf_scale_name(source));
      const auto expected = source_values(*hf, source);
      ASSERT_TRUE(same_bits(file_values(n == 1 ? tensor : at(tensor, e)), expected))
          << spec.name << " from " << source;
      n_values += static_cast<int64_t>(expected.size());
    }
  });
  EXPECT_EQ(n_values, 48560372);
  // Nothing in the checkpoint was passed over.
  EXPECT_EQ(used.size(), hf->tensors().size());
}

TEST_F(NanoConversion, Mxfp4RepacksExpertsWithoutLoss) {
  ASSERT_TRUE(convert("mxfp4.gguf", Recipe::kMxfp4));
  ASSERT_TRUE(convert("exact.gguf", Recipe::kExact));
  const auto mxfp4 = gguf::File::open(path("mxfp4.gguf"));
  const auto exact = gguf::File::open(path("exact.gguf"));
  int n = 0;
  for (const gguf::TensorInfo& t : mxfp4->tensors()) {
    if (t.dtype() != DType::kMXFP4) continue;
    ++n;
    const auto* other = exact->find_tensor(t.name);
    ASSERT_EQ(t.bytes, other->bytes);
    EXPECT_EQ(std::memcmp(t.data, other->data, static_cast<size_t>(*t.bytes)), 0) << t.name;
  }
  EXPECT_EQ(n, 27);
}

// Quantized matrices stay near their source: relative error of all values, by format.
TEST_F(NanoConversion, LossyRecipesOpenAndStayNear) {
  const auto hf = safetensors::Checkpoint::open(kNano);
  struct Case {
    Recipe recipe;
    const char* tensor;
    double
        limit;  // measured: Q8_0 0.0054, Q4_K 0.063, IQ2_XXS 0.35, Q2_K 0.30; a wrong layout: 1.4
  };
  for (const Case& c : {Case{Recipe::kQ8_0, "blk.3.ffn_gate_exps.weight", 0.01},
                        Case{Recipe::kQ4, "blk.3.ffn_gate_exps.weight", 0.12},
                        Case{Recipe::kQ2, "blk.3.ffn_gate_exps.weight", 0.5},
                        Case{Recipe::kQ2, "blk.3.ffn_down_exps.weight", 0.5},
                        Case{Recipe::kQ2, "blk.3.attn_q_b.weight", 0.01},
                        Case{Recipe::kQ2, "token_embd.weight", 1e-3}}) {
    const std::string out = fmt::format("recipe{}.gguf", static_cast<int>(c.recipe));
    if (!fs::exists(path(out))) {
      ASSERT_TRUE(convert(out, c.recipe));
    }
    const auto model = Model::open(path(out));
    ASSERT_TRUE(model) << model.error().message;
    const ConstTensor all = model->file().find_tensor(c.tensor)->view();
    const bool routed = all.rank() == 3;
    const ConstTensor tensor = routed ? at(all, 5) : all;
    const std::string name = hf_name(c.tensor);
    const auto expected = source_values(*hf, routed ? hf_expert_name(name, 5) : name);
    double error = 0, norm = 0;
    std::vector<float> row(static_cast<size_t>(tensor.n_cols()));
    for (int64_t r = 0; r < tensor.n_rows(); ++r) {
      decode_row(tensor.dtype(), tensor.row_data(r), row.data(), tensor.n_cols());
      for (size_t i = 0; i < row.size(); ++i) {
        const double want = expected[static_cast<size_t>(r) * row.size() + i];
        error += (row[i] - want) * (row[i] - want);
        norm += want * want;
      }
    }
    const double relative = std::sqrt(error / norm);
    EXPECT_LT(relative, c.limit) << c.tensor << " " << dtype_name(tensor.dtype());
    RecordProperty(std::string(dtype_name(tensor.dtype())), std::to_string(relative));
  }
}

TEST_F(NanoConversion, BytesDoNotDependOnThreads) {
  ASSERT_TRUE(convert("one.gguf", Recipe::kQ4, 1));
  ASSERT_TRUE(convert("three.gguf", Recipe::kQ4, 3));
  const auto one = MappedFile::open(path("one.gguf"));
  const auto three = MappedFile::open(path("three.gguf"));
  ASSERT_EQ(one->bytes().size(), three->bytes().size());
  EXPECT_EQ(std::memcmp(one->bytes().data(), three->bytes().data(), one->bytes().size()), 0);
}

TEST_F(NanoConversion, StoppingLeavesNothing) {
  std::stop_source stop;
  stop.request_stop();
  const auto done = convert("stopped.gguf", Recipe::kQ2, 2, stop.get_token());
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::kCancelled);
  EXPECT_TRUE(fs::is_empty(folder_));
}

// A checkpoint with a damaged weight: the error names tensor, row and column, and no file is left.
TEST_F(NanoConversion, ANanInTheCheckpointIsNamed) {
  const fs::path copy = folder_ / "hf";
  fs::copy(kNano, copy);
  const auto hf = safetensors::Checkpoint::open(kNano);
  const std::string victim = "layers.1.attn.wkv.weight";
  for (const auto& entry : fs::directory_iterator(copy)) {
    if (entry.path().extension() != ".safetensors") continue;
    const auto file = MappedFile::open(entry.path().string());
    const auto tensors = safetensors::parse_file(file->bytes(), "copy");
    for (const auto& t : *tensors) {
      if (t.name != victim) continue;
      const auto offset = t.data - file->bytes().data() + 256 * 2 + 9;  // row 2, column 9
      FILE* stream = std::fopen(entry.path().c_str(), "r+b");
      std::fseek(stream, offset, SEEK_SET);
      std::fputc(0x7f, stream);
      std::fclose(stream);
    }
  }
  const auto conversion =
      Conversion::plan({.hf_dir = copy.string(), .recipe = Recipe::kExact, .overrides = {}});
  ASSERT_TRUE(conversion) << conversion.error().message;
  ConvertProgress progress;
  const auto done = conversion->run(path("nan.gguf"), {}, {}, progress);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(done.error().message.find(victim + ": row 2 column 9"), std::string::npos)
      << done.error().message;
  EXPECT_FALSE(fs::exists(path("nan.gguf")));
}

}  // namespace
}  // namespace ds4
