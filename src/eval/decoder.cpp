#include "eval/decoder.h"

#include <stop_token>

#include "base/check.h"

namespace ds4::eval {

Result<std::unique_ptr<EngineDecoder>> EngineDecoder::create(Engine& engine, size_t n_lanes,
                                                             int64_t ctx_tokens) {
  DS4_CHECK(n_lanes >= 1);
  std::unique_ptr<EngineDecoder> decoder(new EngineDecoder(engine));
  for (size_t i = 0; i < n_lanes; ++i) {
    DS4_TRY(Session session, Session::create(engine, {.ctx_tokens = ctx_tokens}));
    decoder->sessions_.push_back(std::move(session));
  }
  return decoder;
}

Result<void> EngineDecoder::read_prompt(size_t lane, std::span<const Token> prompt,
                                        const Progress& progress) {
  Session& session = sessions_[lane];
  // The last case is not part of this one's history; nothing of it is worth a snapshot.
  session.reset();
  std::stop_source stop;
  DS4_TRY_VOID(session.sync(prompt, stop.get_token(), [&](int64_t done, int64_t total) {
    if (!progress(done, total)) stop.request_stop();
  }));
  return {};
}

Result<void> EngineDecoder::decode(std::span<const LaneToken> tokens) {
  steps_.clear();
  for (const LaneToken& token : tokens) {
    steps_.push_back({.session = &sessions_[token.lane],
                      .tokens = {&token.token, 1},
                      .kind = SpanKind::kDecode});
  }
  return engine_.step(steps_);
}

}  // namespace ds4::eval
