// Model files that are cut, made up, or something else altogether, given to the ds4 program: exit
// code 1 and one line that helps, never a signal, never memory that the file does not account for.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "gguf/file.h"

namespace ds4::test {
namespace {

namespace fs = std::filesystem;

struct Outcome {
  int code = -1;  // minus the signal when one ended it
  int64_t peak_rss_bytes = 0;
  std::string err;
};

class HostileFiles : public testing::Test {
 protected:
  HostileFiles() { fs::create_directories(folder_); }
  ~HostileFiles() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string file(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }

  // Asks the model in `file` for an answer. The peak is the child's own: this program keeps small,
  // because a child starts with its parent's memory.
  Outcome ask(const std::string& model) const {
    const std::string err = path("stderr");
    std::vector<std::string> words = {DS4_PROGRAM, "-m", model,    "-p", "x",
                                      "-n",        "2",  "--temp", "0"};
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const pid_t pid = ::fork();
    if (pid == 0) {
      const int fd = ::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      const int null = ::open("/dev/null", O_RDWR);
      if (fd < 0 || ::dup2(fd, 2) < 0 || ::dup2(null, 1) < 0 || ::dup2(null, 0) < 0) ::_exit(98);
      ::execv(argv[0], argv.data());
      ::_exit(99);
    }
    int status = 0;
    rusage usage{};
    ::wait4(pid, &status, 0, &usage);
    std::stringstream text;
    text << std::ifstream(err).rdbuf();
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), usage.ru_maxrss * 1024,
            text.str()};
  }

  void expect_refused(const std::string& model, const std::string& pattern) const {
    const Outcome got = ask(model);
    EXPECT_EQ(got.code, 1) << model << "\n" << got.err;
    EXPECT_TRUE(std::regex_search(got.err, std::regex(pattern)))
        << "expected: " << pattern << "\nfound: " << got.err;
    EXPECT_EQ(std::count(got.err.begin(), got.err.end(), '\n'), 1) << got.err;
    EXPECT_NE(got.err.find(model), std::string::npos) << got.err;
  }

  const fs::path folder_ = fs::path(DS4_BINARY_DIR) / "hostile_files_test";
};

const char* const kNano = DS4_BINARY_DIR "/nano/nano-q8_0.gguf";

// BC-12: a file that ends too early, at 25 places: inside the magic, the counts, keys, the
// vocabulary, tensor records, the padding, tensors, and one byte before the end of the last one.
TEST_F(HostileFiles, ATruncatedModelIsCalledTruncatedWithItsSizes) {
  std::vector<size_t> cuts = {1, 3, 4, 7, 8, 15, 16, 23, 24, 31, 32, 40, 100, 5000};
  size_t data_start = 0, last_end = 0;
  {
    const auto parsed = gguf::File::open(kNano);
    ASSERT_TRUE(parsed) << parsed.error().message;
    const auto whole = static_cast<size_t>(parsed->file_bytes());
    const auto start = static_cast<size_t>(parsed->data_start());
    data_start = start;
    for (const gguf::TensorInfo& info : parsed->tensors()) {
      last_end = std::max(last_end, static_cast<size_t>(info.offset + *info.bytes));
    }
    const size_t more[] = {start / 2, start - 9000,       start - 100,  start - 1,
                           start,     start + 1,          start + 4096, whole / 4,
                           whole / 2, last_end - 100'000, last_end - 1};
    cuts.insert(cuts.end(), std::begin(more), std::end(more));
  }
  ASSERT_EQ(cuts.size(), 25u);
  const std::string cut = path("cut.gguf");
  fs::copy_file(kNano, cut, fs::copy_options::overwrite_existing);
  std::sort(cuts.rbegin(), cuts.rend());
  for (const size_t n : cuts) {
    SCOPED_TRACE(testing::Message() << "cut at byte " << n);
    fs::resize_file(cut, n);
    // Once the directory is read it is known what the whole file must have; before that, only what
    // the next field or the counts would need.
    expect_refused(cut, "truncated.*[^0-9]" + std::to_string(n) + "[^0-9]|[^0-9]" +
                            std::to_string(n) + "[^0-9].*truncated");
    if (n >= data_start) {
      expect_refused(cut, "truncated: .* at least " + std::to_string(last_end) + " bytes, found " +
                              std::to_string(n));
    }
  }
}

// A GGUF header and whatever follows.
std::string gguf_bytes(uint64_t n_tensors, uint64_t n_keys, const std::string& rest) {
  std::string bytes = "GGUF";
  const auto put = [&](auto value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  put(uint32_t{3});
  put(n_tensors);
  put(n_keys);
  bytes += rest;
  bytes.resize(std::max<size_t>(bytes.size(), 160));
  return bytes;
}

template <typename T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string text(const std::string& value) { return raw(uint64_t{value.size()}) + value; }

std::string array(uint32_t element, uint64_t count) { return raw(element) + raw(count); }

// BC-13: 160 bytes that claim to be followed by terabytes.
TEST_F(HostileFiles, ATinyFileCannotAskForGigabytes) {
  const uint64_t huge = uint64_t{1} << 40, absurd = uint64_t{1} << 60;
  const auto key = [](const std::string& name, uint32_t type) { return text(name) + raw(type); };
  std::string nested = key("n", 9);
  for (int depth = 0; depth < 20; ++depth) nested += array(9, 1);
  const std::string alignment = key("general.alignment", 4);
  const std::pair<const char*, std::string> cases[] = {
      {"string of 2^40", gguf_bytes(0, 1, key("k", 8) + raw(huge))},
      {"array of 2^40 u8", gguf_bytes(0, 1, key("k", 9) + array(0, huge))},
      {"array of 2^40 strings", gguf_bytes(0, 1, key("k", 9) + array(8, huge))},
      {"array of 2^40 arrays", gguf_bytes(0, 1, key("k", 9) + array(9, huge))},
      {"nested arrays", gguf_bytes(0, 1, nested)},
      {"2^60 keys", gguf_bytes(0, absurd, "")},
      {"2^60 tensors", gguf_bytes(absurd, 0, "")},
      {"alignment 3", gguf_bytes(0, 1, alignment + raw(uint32_t{3}))},
      {"alignment 0", gguf_bytes(0, 1, alignment + raw(uint32_t{0}))},
      {"alignment 2^30", gguf_bytes(0, 1, alignment + raw(uint32_t{1} << 30))},
      {"key twice",
       gguf_bytes(0, 2, (alignment + raw(uint32_t{32})) + alignment + raw(uint32_t{32}))},
      {"key with NUL", gguf_bytes(0, 1, key(std::string("a\0b", 3), 4) + raw(uint32_t{1}))},
      {"tensor of 2^62", gguf_bytes(1, 0,
                                    text("t") + raw(uint32_t{1}) + raw(uint64_t{1} << 60) +
                                        raw(uint32_t{0}) + raw(uint64_t{0}))},
  };
  for (const auto& [name, bytes] : cases) {
    SCOPED_TRACE(name);
    const Outcome got = ask(file("tiny.gguf", bytes));
    EXPECT_EQ(got.code, 1) << got.err;
    EXPECT_NE(got.err.find("tiny.gguf"), std::string::npos) << got.err;
#ifndef DS4_SANITIZED  // a sanitizer's own memory is more
    EXPECT_LT(got.peak_rss_bytes, int64_t{64} << 20);
#endif
  }
}

// BC-15: the wrong kind of file is told what it is, and what is needed.
TEST_F(HostileFiles, TheWrongKindOfFileIsTold) {
  const std::string architecture = text("general.architecture") + raw(uint32_t{8});
  const auto model = [&](const std::string& name) { return architecture + text(name); };
  expect_refused(file("llama.gguf", gguf_bytes(0, 1, model("llama"))),
                 "expected deepseek4, found llama");
  expect_refused(
      file("x-00001-of-00005.gguf",
           gguf_bytes(0, 3,
                      model("deepseek4") + text("split.no") + raw(uint32_t{2}) + raw(uint16_t{0}) +
                          text("split.count") + raw(uint32_t{2}) + raw(uint16_t{5}))),
      "piece 1 of 5 of a split GGUF.*merge first");
  expect_refused(file("page.gguf", "<!DOCTYPE html><html><body>404 Not Found</body></html>"),
                 "not a GGUF file.*web page");
  expect_refused(folder_.string(), "directory");
  expect_refused(file("mtp.gguf", gguf_bytes(0, 1, model("deepseek4_mtp_support"))),
                 "MTP draft block, not a whole model: give the main model with -m");
  expect_refused(
      file("pointer.gguf", "version https://git-lfs.github.com/spec/v1\noid sha256:12\n"),
      "Git LFS pointer");
  expect_refused(path("none.gguf"), "No such file");
}

// BC-16: a scale of one attention matrix is NaN. The file opens; the answer must not be a stream of
// the first token.
TEST_F(HostileFiles, ABrokenModelSaysThatItsLogitsAreNotFinite) {
  const std::string broken = path("nan.gguf");
  fs::copy_file(kNano, broken, fs::copy_options::overwrite_existing);
  {
    const auto parsed = gguf::File::open(kNano);
    ASSERT_TRUE(parsed);
    const gguf::TensorInfo* info = parsed->find_tensor("blk.3.attn_kv.weight");
    ASSERT_NE(info, nullptr);
    ASSERT_EQ(info->dtype(), DType::kQ8_0);
    std::fstream out(broken, std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(info->offset);
    out << raw(uint16_t{0x7E00});
  }
  const Outcome got = ask(broken);
  EXPECT_EQ(got.code, 1) << got.err;
  EXPECT_NE(got.err.find("logits are not finite"), std::string::npos) << got.err;
}

}  // namespace
}  // namespace ds4::test
