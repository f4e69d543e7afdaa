// dump_logits: next-token logits of our engine after given token ids, for a comparison with other
// engines (scripts/check_llama.sh). Each line of --ids is one prompt, ids separated by blanks.
// --out gets f32 little-endian [n_prompts, vocab_size], the logits after the last token of each. A
// prompt that continues the one before it is evaluated from there on, so lines that grow by one
// token are decoded, not prefilled.
//
// Exit codes: 0 written, 1 failed, 2 wrong command line.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <cstdio>
#include <exception>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/file_writer.h"
#include "engine/session.h"
#include "ops/precision.h"

namespace {

using namespace ds4;

static_assert(std::endian::native == std::endian::little);

struct Options {
  std::string model, ids, out, backend = "cpu", profile = "hf32";
  int n_threads = 1;
};

void add_flags(CLI::App& app, Options& o) {
  app.add_option("-m,--model", o.model, "GGUF file")->required();
  app.add_option("--ids", o.ids, "file with the token ids of one prompt a line")->required();
  app.add_option("--out", o.out, "file to write")->required();
  app.add_option("--backend", o.backend, "reference, cpu or cuda")->capture_default_str();
  app.add_option("--profile", o.profile, "official or hf32")->capture_default_str();
  app.add_option("--threads", o.n_threads, "0: one per processor")->capture_default_str();
}

Result<std::vector<std::vector<Token>>> read_prompts(const std::string& path, int64_t vocab_size) {
  std::ifstream file(path);
  if (!file) return fail(ErrorCode::kNotFound, fmt::format("{}: cannot open", path));
  std::vector<std::vector<Token>> prompts;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::vector<Token> ids;
    for (Token id = 0; words >> id;) ids.push_back(id);
    const bool known =
        std::all_of(ids.begin(), ids.end(), [&](Token id) { return id >= 0 && id < vocab_size; });
    if (!words.eof() || ids.empty() || !known) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: line {}: expected token ids from 0 to {}", path,
                              prompts.size() + 1, vocab_size - 1));
    }
    prompts.push_back(std::move(ids));
  }
  return prompts;
}

int64_t longest(const std::vector<std::vector<Token>>& prompts) {
  size_t n = 1;
  for (const auto& prompt : prompts) n = std::max(n, prompt.size());
  return static_cast<int64_t>(n);
}

Result<void> dump(const Options& o) {
  DS4_TRY(const BackendKind backend, backend_from_name(o.backend));
  DS4_TRY(const Precision precision, precision_from_name(o.profile));
  DS4_TRY(Model model, Model::open(o.model));
  DS4_TRY(const auto prompts, read_prompts(o.ids, model.config().vocab_size));
  DS4_TRY(const auto engine,
          Engine::create(std::move(model),
                         {.backend = backend, .n_threads = o.n_threads, .precision = precision}));
  DS4_TRY(Session session, Session::create(*engine, {.ctx_tokens = longest(prompts)}));
  DS4_TRY(FileWriter out, FileWriter::create(o.out, /*overwrite=*/true));
  for (const auto& prompt : prompts) {
    DS4_TRY_VOID(session.sync(prompt));
    DS4_TRY_VOID(out.write(std::as_bytes(session.logits())));
  }
  return out.commit();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Next-token logits after given token ids", "dump_logits");
  Options options;
  add_flags(app, options);
  try {
    app.parse(argc, argv);
    const auto done = dump(options);
    if (done) return 0;
    fmt::print(stderr, "dump_logits: {}\n", done.error().message);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "dump_logits: {}\n", error.what());
  }
  return 1;
}
