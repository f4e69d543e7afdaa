#pragma once
// How one case went: what the runner finds out, and trace and report write down.
#include <cstdint>
#include <string>

#include "chat/tool_calls.h"
#include "eval/answer.h"
#include "eval/board.h"
#include "eval/case.h"

namespace ds4::eval {

struct Outcome {
  size_t index = 0;  // of the case in the run, from 0
  std::string id, source, domain, title;
  AnswerKind answer_kind = AnswerKind::kContent;
  int64_t n_choices = 0;

  CaseStatus status = CaseStatus::kPending;
  std::string picked, expected;  // to_text() of the grade
  std::string error;             // kError, kSkipped: why

  bool thinking = false;
  ThinkClose think_close;
  Finish finish = Finish::kStop;
  std::string output;  // all bytes the model said

  int64_t prompt_tokens = 0;
  int64_t generated_tokens = 0;
  double elapsed_seconds = 0;
  int64_t finished_unix = 0;
};

}  // namespace ds4::eval
