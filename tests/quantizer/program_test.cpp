// ds4-quantize as a program: exit codes, messages, and what is left when it is interrupted.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

namespace ds4 {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNano = DS4_SOURCE_DIR "/models/nano";

#define EXPECT_MENTIONS(text, part) \
  EXPECT_NE(std::string(text).find(part), std::string::npos) << "output: " << (text)

class Program : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(DS4_BINARY_DIR) / "quantize_program_test";
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const char* name) const { return (folder_ / name).string(); }

  // Starts the program with stdout and stderr in a file.
  pid_t start(std::vector<std::string> args) {
    args.insert(args.begin(), DS4_QUANTIZE);
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);
    const pid_t pid = ::fork();
    if (pid == 0) {
      const int fd =
          ::open((folder_.string() + ".log").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
      ::dup2(fd, STDOUT_FILENO);
      ::dup2(fd, STDERR_FILENO);
      ::execv(argv[0], argv.data());
      ::_exit(99);
    }
    return pid;
  }
  // Exit code, or minus the signal.
  static int wait(pid_t pid) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  int run(std::vector<std::string> args) {
    const int code = wait(start(std::move(args)));
    std::stringstream text;
    text << std::ifstream(folder_.string() + ".log").rdbuf();
    output_ = text.str();
    return code;
  }

  fs::path folder_;
  std::string output_;
};

TEST_F(Program, HelpTeaches) {
  EXPECT_EQ(run({"--help"}), 0);
  for (const char* part : {"--recipe", "exact", "Examples:", "--tensor-type", "Exit codes"}) {
    EXPECT_MENTIONS(output_, part);
  }
}

TEST_F(Program, TheDraftBlockCanBeLeftOut) {
  EXPECT_EQ(run({"--hf", kNano, "--out", path("x"), "--recipe", "exact", "--dry-run"}), 0);
  EXPECT_MENTIONS(output_, "272 tensors");
  EXPECT_EQ(run({"--hf", kNano, "--out", path("x"), "--recipe", "exact", "--no-mtp", "--dry-run"}),
            0);
  EXPECT_MENTIONS(output_, "240 tensors");
}

TEST_F(Program, WrongCommandLinesExitWith2) {
  EXPECT_EQ(run({}), 2);
  EXPECT_EQ(run({"--hf", kNano, "--out", path("x"), "--recipe", "q3"}), 2);
  EXPECT_MENTIONS(output_, "exact, mxfp4, q8_0, q4, q2 or mixed");
  EXPECT_EQ(run({"--hf", kNano, "--out", path("x"), "--experts", "q9"}), 2);
  EXPECT_MENTIONS(output_, "--experts");
  EXPECT_EQ(run({"--hf", kNano, "--out", path("x"), "--nonsense"}), 2);
  EXPECT_EQ(run({"--hf", kNano, "--out", path("x"), "--tensor-type", "noequals"}), 2);
  EXPECT_MENTIONS(output_, "NAME=TYPE expected");
  EXPECT_EQ(run({"--hf", kNano, "--out", path("x"), "--recipe", "mixed", "--mixed-layers", "7-8"}),
            2);
  EXPECT_MENTIONS(output_, "layers: expected 0 .. 7, found 8");
  EXPECT_EQ(run({"--hf", kNano, "--out", path("x"), "--recipe", "q2", "--mixed-layers", "7"}), 2);
  EXPECT_EQ(run({"--hf", kNano, "--out", path("x"), "--embedding", "q2_k"}), 2);
  EXPECT_MENTIONS(output_, "token_embd.weight: the engine loads");
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(Program, FailuresExitWith1) {
  EXPECT_EQ(run({"--hf", "/nonexistent", "--out", path("x")}), 1);
  EXPECT_MENTIONS(output_, "/nonexistent/config.json");
  EXPECT_EQ(run({"--hf", kNano, "--out", "/nonexistent/x.gguf", "--recipe", "exact"}), 1);
}

TEST_F(Program, DryRunPlansAndWritesNothing) {
  EXPECT_EQ(run({"--hf", kNano, "--out", path("x"), "--recipe", "exact", "--dry-run"}), 0);
  EXPECT_MENTIONS(output_, "DeepSeek V4 Nano with its MTP block");
  EXPECT_MENTIONS(output_, "272 tensors, 57237760 bytes");
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(Program, AnExistingFileIsKeptUnlessTold) {
  std::ofstream(path("there.gguf")) << "precious";
  EXPECT_EQ(run({"--hf", kNano, "--out", path("there.gguf"), "--recipe", "exact"}), 1);
  EXPECT_MENTIONS(output_, "already exists");
  EXPECT_EQ(fs::file_size(path("there.gguf")), 8u);
  EXPECT_EQ(run({"--hf", kNano, "--out", path("there.gguf"), "--recipe", "exact", "--overwrite"}),
            0);
  EXPECT_EQ(fs::file_size(path("there.gguf")), 57237760u);
}

TEST_F(Program, InterruptedLeavesNothing) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const pid_t pid =
        start({"--hf", kNano, "--out", path("x.gguf"), "--recipe", "q2", "--threads", "1"});
    // The temporary file shows that writing has begun.
    for (int i = 0; i < 500 && fs::is_empty(folder_); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ASSERT_FALSE(fs::is_empty(folder_));
    ::kill(pid, signal);
    EXPECT_EQ(wait(pid), 130);
    EXPECT_TRUE(fs::is_empty(folder_)) << "the temporary file is gone too";
  }
}

std::string nano_file(const std::string& recipe) {
  return std::string(DS4_BINARY_DIR) + "/nano/nano-" + recipe + ".gguf";
}

TEST_F(Program, SplicePlansAndRefuses) {
  EXPECT_EQ(run({"splice"}), 2);
  const std::vector<std::string> both = {"splice", "--base", nano_file("q2"), "--donor",
                                         nano_file("q4")};
  const auto splice = [&](std::vector<std::string> more) {
    more.insert(more.begin(), both.begin(), both.end());
    return run(more);
  };
  EXPECT_EQ(splice({"--layers", "6-7", "--dry-run"}), 0);
  EXPECT_MENTIONS(output_, "6 tensors from the donor, +1769472 bytes against the base");
  EXPECT_EQ(splice({"--layers", "7"}), 2);
  EXPECT_MENTIONS(output_, "--out FILE is required");
  EXPECT_EQ(splice({"--layers", "9", "--dry-run"}), 2);
  EXPECT_MENTIONS(output_, "expected 0 .. 7, found 9");
  EXPECT_EQ(splice({"--layers", "7-", "--dry-run"}), 2);
  EXPECT_TRUE(fs::is_empty(folder_));
  std::ofstream(path("there.gguf")) << "precious";
  EXPECT_EQ(splice({"--layers", "7", "--out", path("there.gguf")}), 1);
  EXPECT_MENTIONS(output_, "already exists");
  EXPECT_EQ(fs::file_size(path("there.gguf")), 8u);
}

TEST_F(Program, InspectTellsFilesApart) {
  EXPECT_EQ(run({"inspect", nano_file("q2"), "--tensors", "--keys"}), 0);
  for (const char* part :
       {"DeepSeek V4 Nano with its MTP block", "alignment 32, 54 keys, 272 tensors",
        "IQ2_XXS     16 tensors", "deepseek4.block_count u32 = 8",
        "blk.0.ffn_down_exps.weight Q2_K [256, 256, 16]"}) {
    EXPECT_MENTIONS(output_, part);
  }
  EXPECT_EQ(run({"inspect", DS4_SOURCE_DIR "/README.md"}), 1);
  EXPECT_MENTIONS(output_, "not a GGUF file");
  EXPECT_EQ(run({"inspect", folder_.string()}), 1);
  EXPECT_EQ(run({"inspect", path("none")}), 1);
}

// Each is named before a byte of the result is written.
TEST_F(Program, WrongImatricesTemplatesAndComparisonsAreNamed) {
  const auto convert = [&](std::vector<std::string> more) {
    const std::vector<std::string> base = {"--hf", kNano, "--out", path("x.gguf")};
    more.insert(more.begin(), base.begin(), base.end());
    return run(more);
  };
  std::ofstream(folder_.string() + ".dat") << std::string("\2\0\0\0\5\0\0\0hello", 13);
  const std::string cut = folder_.string() + ".dat";
  EXPECT_EQ(convert({"--recipe", "q2", "--imatrix", cut}), 1);
  EXPECT_MENTIONS(output_, "truncated");
  EXPECT_EQ(run({"imatrix", cut}), 1);
  EXPECT_MENTIONS(output_, "truncated");
  EXPECT_EQ(convert({"--recipe", "q2", "--imatrix", nano_file("q2")}), 1);
  EXPECT_MENTIONS(output_, "this is not an importance matrix");
  EXPECT_EQ(convert({"--recipe", "q2", "--imatrix-strict"}), 2);
  EXPECT_EQ(convert({"--template", DS4_SOURCE_DIR "/README.md"}), 1);
  EXPECT_MENTIONS(output_, "this is a text file");
  EXPECT_EQ(convert({"--template", nano_file("q2"), "--recipe", "q4"}), 2);
  EXPECT_MENTIONS(output_, "--recipe, --mixed-layers and --no-mtp have no meaning");
  EXPECT_EQ(convert({"--compare-tensor", "no.such", "--compare-gguf", nano_file("q2")}), 1);
  EXPECT_MENTIONS(output_, "there is no tensor no.such");
  EXPECT_EQ(convert({"--compare-tensor", "blk.3.ffn_down_exps.weight"}), 2);
  EXPECT_EQ(convert({"--recipe", "q4", "--compare-tensor", "blk.3.ffn_down_exps.weight",
                     "--compare-gguf", nano_file("q4")}),
            0);
  EXPECT_MENTIONS(output_, "equal");
  EXPECT_EQ(convert({"--n-experts", "256", "--dry-run"}), 2);
  EXPECT_MENTIONS(output_, "the checkpoint has 16, not 256");
  EXPECT_TRUE(fs::is_empty(folder_));
  fs::remove(cut);
}

// A checkpoint that lost a shard, and one with an expert of another width.
TEST_F(Program, DamagedCheckpointsAreNamed) {
  const fs::path copy = fs::path(folder_.string() + "_hf");
  fs::remove_all(copy);
  fs::copy(kNano, copy);
  fs::remove(copy / "model-00002-of-00002.safetensors");
  EXPECT_EQ(run({"--hf", copy.string(), "--out", path("x.gguf")}), 1);
  EXPECT_MENTIONS(output_, "model-00002-of-00002.safetensors");

  // An expert whose FP4 rows have another width than the model's: a header edit of equal length.
  fs::copy(fs::path(kNano) / "model-00002-of-00002.safetensors", copy);
  const std::string victim = "layers.3.ffn.experts.5.w2.weight";
  int n_edited = 0;
  for (const auto& entry : fs::directory_iterator(copy)) {
    if (entry.path().extension() != ".safetensors") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    std::string header(200000, '\0');
    file.read(header.data(), static_cast<std::streamsize>(header.size()));
    const size_t at = header.find("[256,128]", header.find(victim + '"'));
    if (header.find(victim + '"') == std::string::npos || at == std::string::npos) continue;
    file.clear();
    file.seekp(static_cast<std::streamoff>(at));
    file << "[512, 64]";
    ++n_edited;
  }
  ASSERT_EQ(n_edited, 1);
  EXPECT_EQ(run({"--hf", copy.string(), "--out", path("x.gguf")}), 1);
  EXPECT_MENTIONS(output_, victim + ": expected shape");
  fs::remove_all(copy);
  EXPECT_TRUE(fs::is_empty(folder_));
}

}  // namespace
}  // namespace ds4
