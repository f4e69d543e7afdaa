// Files made from other files: with an importance matrix, after a template, spliced from two; and
// one tensor made again for comparison. Nano's ready conversions are the oracle where the result
// must be the same bytes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <map>

#include "base/mapped_file.h"
#include "gguf/writer.h"
#include "model/model.h"
#include "quant/codec.h"
#include "quantizer/converter.h"
#include "quantizer/hf_names.h"
#include "quantizer/splice.h"
#include "quantizer/synth.h"

namespace ds4 {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHf = DS4_SOURCE_DIR "/models/nano";
constexpr const char* kDown = "blk.3.ffn_down_exps.weight";

std::string nano(const std::string& recipe) {
  return fmt::format("{}/nano/nano-{}.gguf", DS4_BINARY_DIR, recipe);
}

class DerivedFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        fs::path(DS4_BINARY_DIR) /
        fmt::format("derived_{}", testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  void run(const Conversion& conversion, const std::string& name) {
    ConvertProgress progress;
    const auto done = conversion.run(path(name), {.n_threads = 2}, {}, progress);
    ASSERT_TRUE(done) << done.error().message;
  }
  void expect_same_file(const std::string& a, const std::string& b) {
    const auto x = MappedFile::open(a), y = MappedFile::open(b);
    ASSERT_TRUE(x && y);
    ASSERT_EQ(x->bytes().size(), y->bytes().size());
    EXPECT_EQ(std::memcmp(x->bytes().data(), y->bytes().data(), x->bytes().size()), 0);
  }
  // A copy of a GGUF file's tensors (empty) and keys, with changes.
  std::string variant(const std::string& from, const char* name,
                      const std::function<bool(std::string& tensor, Shape& shape)>& keep) {
    const gguf::File file = *gguf::File::open(from);
    gguf::Layout layout;
    for (const auto& entry : file.metadata()) {
      layout.add_value(entry.key, entry.value.type(), entry.value.payload());
    }
    for (const auto& info : file.tensors()) {
      std::string tensor(info.name);
      Shape shape = info.view().shape();
      if (keep(tensor, shape)) layout.add_tensor(tensor, *info.dtype(), shape);
    }
    auto writer = gguf::Writer::create(layout, path(name), false);
    EXPECT_TRUE(writer);
    for (int i = 0; i < layout.n_tensors(); ++i) {
      EXPECT_TRUE(
          writer->write(i, 0, std::vector<std::byte>(static_cast<size_t>(layout.tensor_bytes(i)))));
    }
    EXPECT_TRUE(writer->finish());
    return path(name);
  }
  // An importance matrix of Nano's shape: column c of every expert weighs 1 + c mod 7.
  Imatrix imatrix(bool with_mtp = true) {
    Imatrix m;
    m.n_chunks = 3;
    m.datasets = {"chats.txt"};
    const auto add = [&](const std::string& prefix) {
      for (const char* role : {"gate", "up", "down"}) {
        ImatrixEntry entry{{}, std::vector<int64_t>(16, 10)};
        for (int i = 0; i < 16 * 256; ++i) entry.means.push_back(1.5f + static_cast<float>(i % 7));
        m.entries[fmt::format("{}ffn_{}_exps.weight", prefix, role)] = entry;
      }
    };
    for (int il = 0; il < 8; ++il) add(fmt::format("blk.{}.", il));
    if (with_mtp) add("mtp.0.");
    return m;
  }
  std::string write(const Imatrix& m, const char* name = "m.dat") {
    EXPECT_TRUE(m.write(path(name), true));
    return path(name);
  }
  Result<Conversion> plan(const Imatrix& m, Recipe recipe, bool strict = false) {
    return Conversion::plan({.hf_dir = kHf,
                             .recipe = recipe,
                             .overrides = {},
                             .imatrix_path = write(m),
                             .imatrix_strict = strict});
  }
  fs::path folder_;
};

// Routed 2-bit tensors are what encode_row makes of the checkpoint with these weights; every other
// tensor is untouched.
TEST_F(DerivedFiles, AnImportanceMatrixReachesTheEncoders) {
  const auto conversion = plan(imatrix(), Recipe::kQ2, /*strict=*/true);
  ASSERT_TRUE(conversion) << conversion.error().message;
  EXPECT_TRUE(conversion->warnings().empty());
  run(*conversion, "q2i.gguf");
  const gguf::File got = *gguf::File::open(path("q2i.gguf"));
  const gguf::File plain = *gguf::File::open(nano("q2"));
  int n_changed = 0;
  for (const auto& info : plain.tensors()) {
    const auto* other = got.find_tensor(info.name);
    ASSERT_EQ(info.bytes, other->bytes);
    n_changed += std::memcmp(info.data, other->data, static_cast<size_t>(*info.bytes)) != 0;
  }
  EXPECT_EQ(n_changed, 27);
  const auto hf = safetensors::Checkpoint::open(kHf);
  const Imatrix m = imatrix();
  for (const char* name :
       {"blk.3.ffn_down_exps.weight", "blk.6.ffn_up_exps.weight", "mtp.0.ffn_gate_exps.weight"}) {
    SCOPED_TRACE(name);
    const ConstTensor stack = got.find_tensor(name)->view();
    const auto source = HfMatrix::find(*hf, hf_expert_name(hf_name(name), 11), {256, 256});
    ASSERT_TRUE(source) << source.error().message;
    std::vector<float> row(256);
    std::vector<std::byte> expected(static_cast<size_t>(row_bytes(stack.dtype(), 256)));
    for (const int64_t r : {int64_t{0}, int64_t{77}, int64_t{255}}) {
      ASSERT_TRUE(source->decode_row(r, row.data()));
      ASSERT_TRUE(encode_row(stack.dtype(), row.data(), m.entries.at(name).means.data() + 11 * 256,
                             expected.data(), 256));
      EXPECT_EQ(std::memcmp(stack.row_data(11 * 256 + r), expected.data(), expected.size()), 0)
          << "row " << r;
    }
  }
  EXPECT_EQ(got.find("quantize.imatrix.file")->as_string(), path("m.dat"));
  EXPECT_EQ(got.find("quantize.imatrix.dataset")->as_string(), "chats.txt");
  EXPECT_EQ(got.find("quantize.imatrix.entries_count")->as_int(), 27);
  EXPECT_EQ(got.find("quantize.imatrix.chunks_count")->as_int(), 3);
  EXPECT_TRUE(Model::open(path("q2i.gguf")));
}

TEST_F(DerivedFiles, AnImportanceMatrixOfAnotherShapeIsRefused) {
  Imatrix m = imatrix();
  m.entries[kDown].means.pop_back();
  const auto conversion = plan(m, Recipe::kQ4);
  ASSERT_FALSE(conversion);
  EXPECT_NE(conversion.error().message.find(
                std::string(kDown) + ": expected 4096 values (16 x 256 columns), found 4095"),
            std::string::npos)
      << conversion.error().message;
}

// What calibration did not see is said once for each tensor, and is an error only when asked for.
TEST_F(DerivedFiles, GapsOfAnImportanceMatrixAreWarningsOrStrictErrors) {
  Imatrix m = imatrix(/*with_mtp=*/false);
  std::fill_n(m.entries[kDown].means.begin() + 2 * 256, 256, 1.0f);
  std::fill_n(m.entries["blk.4.ffn_up_exps.weight"].means.begin(), 10, 0.0f);
  const auto conversion = plan(m, Recipe::kQ2);
  ASSERT_TRUE(conversion) << conversion.error().message;
  const auto warned = [&](const std::string& text) {
    return std::count_if(conversion->warnings().begin(), conversion->warnings().end(),
                         [&](const std::string& w) { return w.find(text) != std::string::npos; });
  };
  EXPECT_EQ(conversion->warnings().size(), 5u);
  EXPECT_EQ(warned(std::string(kDown) + ": 1 of 16 experts were never used"), 1);
  EXPECT_EQ(warned("blk.4.ffn_up_exps.weight: 10 columns have no importance"), 1);
  EXPECT_EQ(warned("16 of 16 experts are not in the importance matrix"), 3);
  run(*conversion, "gaps.gguf");

  const auto strict = plan(m, Recipe::kQ2, /*strict=*/true);
  ASSERT_FALSE(strict);
  EXPECT_NE(strict.error().message.find("mtp.0.ffn_"), std::string::npos) << strict.error().message;

  const auto useless = plan(m, Recipe::kMxfp4);
  ASSERT_TRUE(useless);
  EXPECT_EQ(useless->warnings().size(), 1u);
}

// Metadata, order, names and types of a template give the very file again; nothing about its
// importance matrix is taken over.
TEST_F(DerivedFiles, ATemplateGivesTheSameFileAgain) {
  const auto conversion =
      Conversion::plan({.hf_dir = kHf, .template_path = nano("q4"), .overrides = {}});
  ASSERT_TRUE(conversion) << conversion.error().message;
  EXPECT_TRUE(conversion->type_changes().empty());
  run(*conversion, "again.gguf");
  expect_same_file(path("again.gguf"), nano("q4"));

  run(*plan(imatrix(), Recipe::kQ4), "weighted.gguf");
  const auto plain =
      Conversion::plan({.hf_dir = kHf, .template_path = path("weighted.gguf"), .overrides = {}});
  ASSERT_TRUE(plain) << plain.error().message;
  run(*plain, "plain.gguf");
  expect_same_file(path("plain.gguf"), nano("q4"));
}

TEST_F(DerivedFiles, OptionsWinOverTheTemplateAndCopyKeepsIt) {
  TypeOverrides overrides;
  overrides.routed = DType::kQ2_K;
  overrides.output = DType::kF16;
  overrides.tensors.emplace_back("blk.2.", TypeChoice());
  const auto conversion =
      Conversion::plan({.hf_dir = kHf, .template_path = nano("q4"), .overrides = overrides});
  ASSERT_TRUE(conversion) << conversion.error().message;
  EXPECT_EQ(conversion->type_changes().size(), 1u + 8 * 3);
  std::map<std::string, DType> types;
  for (const PlannedTensor& t : conversion->tensors()) types[t.spec.name] = t.type;
  EXPECT_EQ(types.at("output.weight"), DType::kF16);
  EXPECT_EQ(types.at("blk.2.ffn_up_exps.weight"), DType::kQ4_K);
  EXPECT_EQ(types.at("blk.1.ffn_up_exps.weight"), DType::kQ2_K);
}

TEST_F(DerivedFiles, ATemplateOfAnotherModelIsNamed) {
  const auto refusal = [&](const std::string& file) {
    const auto conversion =
        Conversion::plan({.hf_dir = kHf, .template_path = file, .overrides = {}});
    return conversion ? "accepted" : conversion.error().message;
  };
  const auto expect_said = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect_said(refusal(variant(nano("q4"), "without.gguf",
                              [](std::string& t, Shape&) { return t != kDown; })),
              fmt::format("1 tensors of the model are missing, among them {}", kDown));
  expect_said(refusal(variant(nano("q4"), "renamed.gguf",
                              [](std::string& t, Shape&) {
                                if (t == kDown) t = "blk.3.ffn_gate.weight";
                                return true;
                              })),
              "blk.3.ffn_gate.weight: a tensor this model does not have");
  expect_said(refusal(variant(nano("q4"), "reshaped.gguf",
                              [](std::string& t, Shape& s) {
                                if (t == kDown) s.set(0, 15);
                                return true;
                              })),
              "expected shape [16, 256, 256] (outermost first), found [15, 256, 256]");
  const auto synth = Synth::plan({.config = nano_config(), .recipe = Recipe::kQ4, .sparse = true});
  ASSERT_TRUE(synth) << synth.error().message;
  ConvertProgress progress;
  ASSERT_TRUE(synth->run(path("synth.gguf"), {}, {}, progress));
  expect_said(refusal(path("synth.gguf")), "its weights are random");
  expect_said(refusal(path("none.gguf")), "none.gguf");
  expect_said(refusal(DS4_SOURCE_DIR "/README.md"), "not a GGUF file");
}

TEST_F(DerivedFiles, ATensorMadeAgainIsComparedByteByByte) {
  const auto conversion = Conversion::plan({.hf_dir = kHf, .recipe = Recipe::kQ4, .overrides = {}});
  ASSERT_TRUE(conversion);
  const auto same = conversion->compare(kDown, *gguf::File::open(nano("q4")), 2, {});
  ASSERT_TRUE(same) << same.error().message;
  EXPECT_TRUE(same->equal());
  EXPECT_EQ(same->our_hash, same->their_hash);

  fs::copy_file(nano("q4"), path("changed.gguf"));
  const gguf::File file = *gguf::File::open(path("changed.gguf"));
  FILE* stream = std::fopen(path("changed.gguf").c_str(), "r+b");
  for (const int64_t at : {1000, 1001, 5000}) {
    const auto before = static_cast<int>(file.find_tensor(kDown)->data[at]);
    std::fseek(stream, file.find_tensor(kDown)->offset + at, SEEK_SET);
    std::fputc(before ^ 1, stream);
  }
  std::fclose(stream);
  const auto changed = conversion->compare(kDown, *gguf::File::open(path("changed.gguf")), 2, {});
  ASSERT_TRUE(changed);
  EXPECT_EQ(changed->n_different, 3);
  EXPECT_EQ(changed->first_different, 1000);
  EXPECT_NE(changed->our_hash, changed->their_hash);
  EXPECT_FALSE(changed->equal());

  EXPECT_EQ(conversion->compare(kDown, *gguf::File::open(nano("q2")), 1, {})->their_type, "Q2_K");
  EXPECT_EQ(conversion->compare("no.such", *gguf::File::open(nano("q2")), 1, {}).error().code,
            ErrorCode::kNotFound);
}

// The experts of the last layer from the q4 file: what the recipe mixed makes from the checkpoint.
TEST_F(DerivedFiles, ASpliceIsTheMixedRecipe) {
  const auto splice = Splice::plan(nano("q2"), nano("q4"), LayerSet::range(7, 7));
  ASSERT_TRUE(splice) << splice.error().message;
  EXPECT_EQ(splice->n_from_donor(), 3);
  ConvertProgress progress;
  ASSERT_TRUE(splice->run(path("spliced.gguf"), {}, {}, progress));
  EXPECT_EQ(splice->bytes_more(), static_cast<int64_t>(fs::file_size(path("spliced.gguf"))) -
                                      static_cast<int64_t>(fs::file_size(nano("q2"))));
  EXPECT_EQ(progress.bytes_done, splice->layout().tensor_bytes());
  run(*Conversion::plan({.hf_dir = kHf, .recipe = Recipe::kMixed, .overrides = {}}), "mixed.gguf");
  expect_same_file(path("spliced.gguf"), path("mixed.gguf"));
}

TEST_F(DerivedFiles, FilesThatDoNotFitAreNotSpliced) {
  const auto refusal = [&](const std::string& donor, const LayerSet& layers) {
    const auto splice = Splice::plan(nano("q2"), donor, layers);
    return splice ? "accepted" : splice.error().message;
  };
  const LayerSet last = LayerSet::range(7, 7);
  const auto without =
      variant(nano("q4"), "without.gguf", [](std::string& t, Shape&) { return t != kDown; });
  EXPECT_NE(refusal(without, last).find("found 32 and 32, 272 and 271"), std::string::npos);
  const auto renamed = variant(nano("q4"), "renamed.gguf", [](std::string& t, Shape&) {
    if (t == kDown) t = "other";
    return true;
  });
  EXPECT_NE(refusal(renamed, last).find(std::string(kDown) + " is in the first file only"),
            std::string::npos);
  const auto reshaped = variant(nano("q4"), "reshaped.gguf", [](std::string& t, Shape& s) {
    if (t == kDown) s.set(0, 15);
    return true;
  });
  EXPECT_NE(refusal(reshaped, last).find("found [256, 256, 16] and [256, 256, 15]"),
            std::string::npos);
  EXPECT_NE(refusal(nano("q4"), LayerSet::range(7, 8)).find("expected 0 .. 7, found 8"),
            std::string::npos);
  std::stop_source stop;
  stop.request_stop();
  ConvertProgress progress;
  const auto stopped = Splice::plan(nano("q2"), nano("q4"), last)
                           ->run(path("stopped.gguf"), {}, stop.get_token(), progress);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
  EXPECT_FALSE(fs::exists(path("stopped.gguf")));
}

}  // namespace
}  // namespace ds4
