// Importance matrices: files of both forms against bytes put together here by hand, merging against
// arithmetic, lookups, and bytes no honest program wrote.
#include "quantizer/imatrix.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>

#include "base/mapped_file.h"
#include "gguf/file.h"
#include "gguf/writer.h"
#include "quantizer/calibration_text.h"

namespace ds4 {
namespace {

namespace fs = std::filesystem;

// The .dat form, field by field.
class Dat {
 public:
  Dat& i32(int32_t value) { return raw(&value, sizeof(value)); }
  Dat& f32s(const std::vector<float>& values) {
    return raw(values.data(), values.size() * sizeof(float));
  }
  Dat& text(const std::string& text) {
    i32(static_cast<int32_t>(text.size()));
    return raw(text.data(), text.size());
  }
  std::span<const std::byte> bytes() const { return bytes_; }
  std::span<const std::byte> first(size_t n) const { return bytes().first(n); }

 private:
  Dat& raw(const void* data, size_t n) {
    const auto* bytes = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), bytes, bytes + n);
    return *this;
  }
  std::vector<std::byte> bytes_;
};

constexpr const char* kGate = "blk.0.ffn_gate_exps.weight";
constexpr const char* kDown = "blk.0.ffn_down_exps.weight";

Dat two_entries() {
  return Dat().i32(2).text(kGate).i32(4).i32(2).f32s({8, 2}).text(kDown).i32(0).i32(1).f32s({3});
}

std::string error_of(std::span<const std::byte> bytes) {
  const auto parsed = Imatrix::parse(bytes, "x.dat");
  return parsed ? "no error" : parsed.error().message;
}

class ImatrixFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        fs::path(DS4_BINARY_DIR) /
        fmt::format("imatrix_{}", testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const char* name) const { return (folder_ / name).string(); }
  fs::path folder_;
};

// Values are stored times the number of calls; a number of calls of 0 means they are means already.
TEST(ImatrixDat, ValuesAreDividedByTheCalls) {
  Dat file = two_entries();
  file.i32(7).text("chats.txt");
  const auto m = Imatrix::parse(file.bytes(), "x.dat");
  ASSERT_TRUE(m) << m.error().message;
  EXPECT_EQ(m->entries.at(kGate).means, (std::vector<float>{2, 0.5}));
  EXPECT_EQ(m->entries.at(kDown).means, (std::vector<float>{3}));
  EXPECT_TRUE(m->entries.at(kGate).counts.empty());
  EXPECT_EQ(m->n_chunks, 7);
  EXPECT_EQ(m->datasets, (std::vector<std::string>{"chats.txt"}));
}

// Old writers stop after the last entry; every other cut is an error that says where.
TEST(ImatrixDat, OnlyTheTrailerMayBeMissing) {
  Dat file = two_entries();
  const size_t entries_end = file.bytes().size();
  file.i32(7).text("chats.txt");
  for (size_t n = 0; n < file.bytes().size(); ++n) {
    SCOPED_TRACE(n);
    const auto m = Imatrix::parse(file.first(n), "x.dat");
    if (n == entries_end || n == entries_end + 4) {
      EXPECT_TRUE(m) << m.error().message;
    } else {
      ASSERT_FALSE(m);
      EXPECT_NE(m.error().message.find("x.dat: truncated"), std::string::npos) << m.error().message;
    }
  }
}

TEST(ImatrixDat, RefusesNumbersThatCannotBe) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  struct Case {
    Dat file;
    const char* said;
  };
  const Case cases[] = {
      {Dat().i32(0).f32s({0, 0, 0, 0}), "number of entries"},
      {Dat().i32(-1).f32s({0, 0, 0, 0}), "number of entries"},
      {Dat().i32(1 << 30).f32s({0, 0, 0, 0}), "truncated"},
      {Dat().i32(1).i32(0).f32s({0, 0, 0, 0}), "entry 0 name length: expected 1 .. 4096, found 0"},
      {Dat().i32(1).i32(5000).f32s({0, 0, 0, 0}), "entry 0 name length"},
      {Dat().i32(1).text("a").i32(1).i32(0).f32s({0}), "entry 0 value count"},
      {Dat().i32(1).text("a").i32(1).i32(-5).f32s({0}), "entry 0 value count"},
      {Dat().i32(1).text("a").i32(1).i32(1 << 30).f32s({0}), "truncated"},
      {Dat().i32(1).text("a").i32(1).i32(1).f32s({nan}), "entry 0 value 0"},
      {Dat().i32(1).text("a").i32(1).i32(2).f32s({1, inf}), "entry 0 value 1"},
      {Dat().i32(1).text("a").i32(1).i32(1).f32s({-1}), "entry 0 value 0"},
      {Dat().i32(2).text("a").i32(1).i32(1).f32s({1}).text("a").i32(1).i32(1).f32s({1}),
       "entry 1: the name of an earlier entry"},
      {two_entries().i32(-3), "number of chunks"},
  };
  for (const Case& c : cases) {
    EXPECT_NE(error_of(c.file.bytes()).find(c.said), std::string::npos)
        << error_of(c.file.bytes()) << "\nexpected: " << c.said;
  }
}

Imatrix counted() {
  Imatrix m;
  m.entries[kGate] = {{2, 4, 1, 1}, {3, 0}};  // two experts with two columns, the second never used
  m.n_chunks = 5;
  m.datasets = {"a.txt"};
  return m;
}

TEST_F(ImatrixFiles, BothFormsComeBackAsTheyWere) {
  const Imatrix m = counted();
  for (const char* name : {"m.dat", "m.gguf"}) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(m.write(path(name), false));
    const auto back = Imatrix::read(path(name));
    ASSERT_TRUE(back) << back.error().message;
    ASSERT_EQ(back->entries.size(), 1u);
    EXPECT_EQ(back->entries.at(kGate).means, m.entries.at(kGate).means);
    EXPECT_EQ(back->n_chunks, 5);
    EXPECT_EQ(back->datasets, m.datasets);
    const auto again = m.write(path(name), false);
    ASSERT_FALSE(again);
    EXPECT_NE(again.error().message.find("exists"), std::string::npos) << again.error().message;
  }
  EXPECT_EQ(Imatrix::read(path("m.gguf"))->entries.at(kGate).counts, m.entries.at(kGate).counts);
  // What llama.cpp would read from the .dat, byte for byte.
  const Dat expected =
      Dat().i32(1).text(kGate).i32(1).i32(4).f32s({2, 4, 1, 1}).i32(5).text("a.txt");
  const MappedFile written = *MappedFile::open(path("m.dat"));
  EXPECT_TRUE(std::ranges::equal(written.bytes(), expected.bytes()));
}

// The GGUF form holds sums; counts of zero stand for columns that are all alike.
TEST_F(ImatrixFiles, TheGgufFormHoldsSumsAndCounts) {
  ASSERT_TRUE(counted().write(path("m.gguf"), false));
  const auto file = gguf::File::open(path("m.gguf"));
  ASSERT_TRUE(file) << file.error().message;
  const auto* sums = file->find_tensor(std::string(kGate) + ".in_sum2");
  const auto* counts = file->find_tensor(std::string(kGate) + ".counts");
  ASSERT_TRUE(sums != nullptr && counts != nullptr);
  EXPECT_EQ(sums->dims, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(counts->dims, (std::vector<int64_t>{1, 2}));
  const float* s = sums->view().row<float>(0);
  EXPECT_EQ((std::vector<float>(s, s + 4)), (std::vector<float>{6, 12, 0, 0}));
  const float* n = counts->view().row<float>(0);
  EXPECT_EQ((std::vector<float>(n, n + 2)), (std::vector<float>{3, 0}));
}

TEST_F(ImatrixFiles, AModelOrADamagedFileIsNamedAsSuch) {
  const auto refused = [&](const char* name, const std::function<void(gguf::Layout&)>& fill,
                           const char* said) {
    gguf::Layout layout;
    fill(layout);
    auto writer = gguf::Writer::create(layout, path(name), false);
    ASSERT_TRUE(writer) << writer.error().message;
    for (int i = 0; i < layout.n_tensors(); ++i) {
      const std::vector<std::byte> zeros(static_cast<size_t>(layout.tensor_bytes(i)));
      ASSERT_TRUE(writer->write(i, 0, zeros));
    }
    ASSERT_TRUE(writer->finish());
    const auto m = Imatrix::read(path(name));
    ASSERT_FALSE(m);
    EXPECT_NE(m.error().message.find(said), std::string::npos) << m.error().message;
  };
  refused(
      "model.gguf", [](auto& l) { l.add_string("general.type", "model"); },
      "general.type: expected imatrix, found model");
  refused(
      "nothing.gguf", [](auto& l) { l.add_string("general.type", "imatrix"); },
      "expected tensors named NAME.in_sum2, found none");
  refused(
      "lonely.gguf",
      [](auto& l) {
        l.add_string("general.type", "imatrix");
        l.add_tensor("a.in_sum2", DType::kF32, {2, 4});
      },
      "a: there are sums but no counts");
  refused(
      "uneven.gguf",
      [](auto& l) {
        l.add_string("general.type", "imatrix");
        l.add_tensor("a.in_sum2", DType::kF32, {2, 4});
        l.add_tensor("a.counts", DType::kF32, {3, 1});
      },
      "expected 2 values, one for each matrix, found 3");
}

// Counts weigh; a matrix that one side never saw is the other's alone.
TEST(ImatrixMerge, WeighsByCounts) {
  Imatrix a = counted(), b = counted();
  b.entries[kGate] = {{6, 8, 5, 7}, {1, 4}};
  b.entries[kDown] = {{9}, {1}};
  b.datasets = {"b.txt"};
  ASSERT_TRUE(a.merge(b));
  EXPECT_EQ(a.entries.at(kGate).means, (std::vector<float>{3, 5, 5, 7}));
  EXPECT_EQ(a.entries.at(kGate).counts, (std::vector<int64_t>{4, 4}));
  EXPECT_EQ(a.entries.at(kDown).means, (std::vector<float>{9}));
  EXPECT_EQ(a.n_chunks, 10);
  EXPECT_EQ(a.datasets, (std::vector<std::string>{"a.txt", "b.txt"}));
}

TEST(ImatrixMerge, WeighsByChunksWhereCountsAreUnknown) {
  Imatrix a, b;
  a.entries[kGate] = {{2, 1, 3}, {}};
  a.n_chunks = 1;
  b.entries[kGate] = {{6, 5, 1}, {}};
  b.n_chunks = 3;
  ASSERT_TRUE(a.merge(b));
  EXPECT_EQ(a.entries.at(kGate).means, (std::vector<float>{5, 5, 3}));
}

TEST(ImatrixMerge, RefusesAnotherShapeAndChangesNothing) {
  Imatrix a = counted(), b = counted();
  b.entries[kDown] = {{1}, {1}};
  b.entries[kGate] = {{1, 2, 3}, {1}};
  const auto merged = a.merge(b);
  ASSERT_FALSE(merged);
  EXPECT_NE(merged.error().message.find("expected 4 values"), std::string::npos)
      << merged.error().message;
  EXPECT_EQ(a.entries.size(), 1u);
  EXPECT_EQ(a.n_chunks, 5);
}

TEST(ImatrixFind, TriesOneExpertThenTheStackThenTheCheckpointsName) {
  Imatrix m;
  const auto values = [&](int64_t expert) {
    const auto found = m.find(kGate, "layers.0.ffn.experts.1.w1.weight", expert, 2, 2);
    EXPECT_TRUE(found) << found.error().message;
    return found ? std::vector<float>(found->begin(), found->end()) : std::vector<float>{};
  };
  EXPECT_EQ(values(1), (std::vector<float>{}));
  m.entries["layers.0.ffn.experts.1.w1.weight"] = {{7, 8}, {}};
  EXPECT_EQ(values(1), (std::vector<float>{7, 8}));
  m.entries[kGate] = {{1, 2, 3, 4}, {}};
  EXPECT_EQ(values(0), (std::vector<float>{1, 2}));
  EXPECT_EQ(values(1), (std::vector<float>{3, 4}));
  m.entries[std::string(kGate) + ".expert_1"] = {{5, 6}, {}};
  EXPECT_EQ(values(1), (std::vector<float>{5, 6}));
  m.entries[std::string(kGate) + ".expert.1"] = {{9, 9}, {}};
  EXPECT_EQ(values(1), (std::vector<float>{9, 9}));
  const auto other_shape = m.find(kGate, "x", 0, 3, 2);
  ASSERT_FALSE(other_shape);
  EXPECT_NE(other_shape.error().message.find("expected 6 values (3 x 2 columns), found 4"),
            std::string::npos)
      << other_shape.error().message;
}

TEST(CalibrationText, IsCutAtTheMarksAndTrimmed) {
  const std::string mark(kCalibrationMark);
  const auto prompts = [](const std::string& text) {
    std::vector<std::string> out;
    for (const std::string_view p : split_calibration_text(text)) out.emplace_back(p);
    return out;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(prompts(""), Texts{});
  EXPECT_EQ(prompts(" \n\t"), Texts{});
  EXPECT_EQ(prompts("one"), Texts{"one"});
  EXPECT_EQ(prompts(mark), Texts{});
  EXPECT_EQ(prompts(mark + " id=1\n\n a\n b \n" + mark + "\n" + mark + " x\r\nc\r\n"),
            (Texts{"a\n b", "c"}));
  // A mark counts at the start of a line only.
  EXPECT_EQ(prompts("see " + mark + "\nb"), Texts{"see " + mark + "\nb"});
}

}  // namespace
}  // namespace ds4
