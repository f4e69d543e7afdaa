#pragma once
// What the program did, for a bug report: JSON lines, one event a line, written as it happens, so
// that a crash leaves everything before it. docs/man/ds4.1 lists the events.
//
// A trace holds the prompts and answers in full: the file has mode 0600. Single-thread.
#include <chrono>
#include <cstdio>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "engine/session.h"
#include "options.h"
#include "tokenizer/tokenizer.h"
#include "turn.h"

namespace ds4::cli {

class Trace {
 public:
  // An empty path traces nothing. Errors: kIo.
  static Result<Trace> create(const std::string& path);

  void start(const Options& options);
  void model(const Engine& engine, const Options& options);
  void prompt(std::span<const Token> tokens, const Thinking& thinking);
  void sync(const TurnReport& report);
  void token(const Tokenizer& tokenizer, Token token, std::span<const float> logits);
  void turn(const TurnReport& report);
  void command(std::string_view line);
  void error(const Error& error);

  // Makes a turn's hooks report here as well; does nothing when there is no file. The trace and
  // `tokenizer` must outlive the hooks.
  void attach(TurnHooks& hooks, const Tokenizer& tokenizer);

 private:
  using File = std::unique_ptr<FILE, int (*)(FILE*)>;
  explicit Trace(File file) : file_(std::move(file)) {}
  void write(std::string_view event, std::string_view members);

  File file_;
  bool failed_ = false;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace ds4::cli
