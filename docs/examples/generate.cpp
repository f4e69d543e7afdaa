// The whole engine in one screen: open a model, read a prompt, generate. Run by ctest on Nano.
//   generate MODEL.gguf "What is the capital of Japan?"
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "chat/render.h"
#include "engine/engine.h"
#include "engine/sampler.h"
#include "engine/session.h"
#include "tokenizer/tokenizer.h"

namespace {

ds4::Result<std::string> generate(const char* model_path, const char* prompt) {
  DS4_TRY(ds4::Model model, ds4::Model::open(model_path));
  DS4_TRY(const ds4::Tokenizer tokenizer, ds4::Tokenizer::create(model.vocab()));
  DS4_TRY(const auto engine, ds4::Engine::create(std::move(model), {}));
  DS4_TRY(ds4::Session session, ds4::Session::create(*engine, {.ctx_tokens = 4096}));

  ds4::Conversation conversation;
  conversation.messages.emplace_back().content = prompt;  // a message is the user's by default
  ds4::RenderOptions options;
  options.thinking.mode = ds4::ThinkingMode::kChat;
  DS4_TRY(const std::vector<ds4::Token> tokens,
          ds4::render_tokens(conversation, options, tokenizer));

  DS4_TRY_VOID(session.sync(tokens));
  std::string text;
  for (int i = 0; i < 100; ++i) {
    const ds4::Token next = ds4::argmax(session.logits());
    if (tokenizer.special().ends_turn(next)) break;
    text += tokenizer.bytes_of(next);
    DS4_TRY_VOID(session.decode(next));
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: generate MODEL.gguf PROMPT\n");
    return 2;
  }
  const auto text = generate(argv[1], argv[2]);
  if (!text) {
    std::fprintf(stderr, "generate: %s\n", text.error().message.c_str());
    return 1;
  }
  std::printf("%s\n", text->c_str());
  return 0;
}
