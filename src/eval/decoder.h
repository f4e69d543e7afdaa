#pragma once
// What a runner needs of a model: lanes, each holding one prompt and what was said after it. The
// engine is one decoder; a test has another that follows a script.
//
// Single-thread.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/session.h"
#include "tokenizer/token.h"

namespace ds4::eval {

struct LaneToken {
  size_t lane = 0;
  Token token = 0;
};

class Decoder {
 public:
  virtual ~Decoder() = default;

  virtual size_t n_lanes() const = 0;
  virtual int64_t ctx_tokens() const = 0;

  // Called between chunks of a prompt; false cancels.
  using Progress = std::function<bool(int64_t done, int64_t total)>;

  // Starts a lane anew with this prompt. Errors: kCancelled, kOutOfMemory; kDevice, after which
  // nothing works any more.
  virtual Result<void> read_prompt(size_t lane, std::span<const Token> prompt,
                                   const Progress& progress) = 0;
  // One further token for each of some different lanes, in one pass over the weights.
  virtual Result<void> decode(std::span<const LaneToken> tokens) = 0;
  // After the last token of the lane; valid until its next read_prompt() or decode().
  virtual std::span<const float> logits(size_t lane) const = 0;
};

// Sessions of one engine. What a lane says does not depend on the others, bit for bit.
class EngineDecoder : public Decoder {
 public:
  // Errors: those of Session::create. The engine must outlive it and have max_sessions >= n_lanes.
  static Result<std::unique_ptr<EngineDecoder>> create(Engine& engine, size_t n_lanes,
                                                       int64_t ctx_tokens);

  size_t n_lanes() const override { return sessions_.size(); }
  int64_t ctx_tokens() const override { return sessions_.front().ctx_tokens(); }
  Result<void> read_prompt(size_t lane, std::span<const Token> prompt,
                           const Progress& progress) override;
  Result<void> decode(std::span<const LaneToken> tokens) override;
  std::span<const float> logits(size_t lane) const override { return sessions_[lane].logits(); }

 private:
  explicit EngineDecoder(Engine& engine) : engine_(engine) {}

  Engine& engine_;
  std::vector<Session> sessions_;
  std::vector<SessionStep> steps_;
};

}  // namespace ds4::eval
