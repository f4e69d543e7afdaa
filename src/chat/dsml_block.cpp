#include "chat/dsml_block.h"

#include <utility>

namespace ds4::dsml {
namespace {

int64_t size_of(std::string_view text) { return static_cast<int64_t>(text.size()); }

// Where [begin, end) ends without the white space at its end.
int64_t trimmed_end(std::string_view text, int64_t begin, int64_t end) {
  while (end > begin && is_blank(text[end - 1])) --end;
  return end;
}

// `end` without one newline in front of it.
int64_t before_newline(std::string_view text, int64_t begin, int64_t end) {
  if (end > begin && text[end - 1] == '\n') --end;
  if (end > begin && text[end] == '\n' && text[end - 1] == '\r') --end;
  return end;
}

}  // namespace

void BlockReader::read(std::string_view text, Ending ending) {
  while (state_ != State::kClosed && step(text, ending)) {
  }
  if (ending != Ending::kNone && state_ != State::kClosed) finish(text, ending);
}

BlockReader BlockReader::at_last_opener(std::string_view text) {
  BlockReader reader, last;
  for (;;) {
    while (reader.state_ != State::kBetween && reader.step(text, Ending::kNone)) {
    }
    if (reader.state_ != State::kBetween) break;
    last = reader;
    reader.block_begin_.reset();
    reader.go(State::kText, reader.held_.end);
  }
  return last.block_begin_ ? last : reader;
}

// One move of the machine. False when it needs text that is not there.
bool BlockReader::step(std::string_view text, Ending ending) {
  switch (state_) {
    case State::kText:
      return in_text(text, ending);
    case State::kOpener:
      return behind_opener(text);
    case State::kBetween:
      return between(text, ending);
    case State::kCallBegin:
      return call_begin(text);
    case State::kParameters:
      return in_parameters(text, ending);
    case State::kParameterBegin:
      return parameter_begin(text);
    case State::kValue:
      return in_value(text, ending);
    case State::kValueCloser:
      return behind_value_closer(text, ending);
    case State::kClosed:
      break;
  }
  return false;
}

void BlockReader::go(State state, int64_t at) {
  state_ = state;
  at_ = at;
  gap_ = at;
}

// Moves behind the next tag, within a block the next of its kind.
bool BlockReader::next_tag(std::string_view text, Ending ending) {
  for (;;) {
    const size_t found = text.find('<', at_);
    if (found == std::string_view::npos) {
      at_ = size_of(text);
      return false;
    }
    at_ = static_cast<int64_t>(found);
    TagStep step = read_tag(text, at_);
    if (step.match == TagMatch::kCut) {
      if (ending != Ending::kNone) cut_ = std::move(step);
      return false;
    }
    if (step.match == TagMatch::kNo) {
      ++at_;
      continue;
    }
    at_ = step.tag.end;
    if (state_ != State::kText && step.tag.plain != plain_) continue;
    tag_ = std::move(step.tag);
    return true;
  }
}

// Moves to the next visible thing. kYes only for a tag of the block's kind, which is then in tag_.
TagMatch BlockReader::look_ahead(std::string_view text) {
  at_ = skip_blanks(text, at_);
  if (at_ == size_of(text)) return TagMatch::kCut;
  if (text[at_] != '<') return TagMatch::kNo;
  TagStep step = read_tag(text, at_);
  if (step.match != TagMatch::kYes) return step.match;
  if (step.tag.plain != plain_) return TagMatch::kNo;
  tag_ = std::move(step.tag);
  return TagMatch::kYes;
}

// Quoted in backticks, or inside a fence, markup is shown and not meant.
bool BlockReader::may_start_block(std::string_view text, int64_t begin) {
  constexpr std::string_view kFence = "```";
  const std::string_view before = text.substr(0, begin);
  for (size_t at = before.find(kFence, fences_at_); at != std::string_view::npos;
       at = before.find(kFence, at + kFence.size())) {
    ++n_fences_;
  }
  fences_at_ = begin;
  return n_fences_ % 2 == 0 && !before.ends_with('`');
}

bool BlockReader::in_text(std::string_view text, Ending ending) {
  if (!next_tag(text, ending)) return false;
  if (!tag_.opens(TagName::kBlock) || !may_start_block(text, tag_.begin)) return true;
  plain_ = tag_.plain;
  held_ = tag_;
  go(State::kOpener, held_.end);
  return true;
}

bool BlockReader::behind_opener(std::string_view text) {
  const TagMatch match = look_ahead(text);
  if (match == TagMatch::kCut) return false;
  if (match == TagMatch::kYes && (tag_.opens(TagName::kInvoke) || tag_.ends(TagName::kBlock))) {
    block_begin_ = held_.begin;
    go(State::kBetween, at_);
  } else {
    go(State::kText, held_.end);
  }
  return true;
}

bool BlockReader::between(std::string_view text, Ending ending) {
  if (!next_tag(text, ending)) return false;
  if (tag_.opens(TagName::kInvoke)) start_call();
  if (tag_.ends(TagName::kBlock)) state_ = State::kClosed;
  return true;
}

void BlockReader::start_call() {
  call_ = {};
  call_.name = tag_.name_value.value_or("");
  malformed_ = malformed_ || call_.name.empty();
  depth_ = 0;
  in_body_ = false;
  go(State::kCallBegin, tag_.end);
}

void BlockReader::end_call() { calls_.push_back(std::exchange(call_, {})); }

bool BlockReader::call_begin(std::string_view text) {
  at_ = skip_blanks(text, at_);
  if (at_ == size_of(text)) return false;
  in_body_ = text[at_] == '{';
  value_begin_ = at_;
  go(in_body_ ? State::kValue : State::kParameters, at_);
  return true;
}

bool BlockReader::in_parameters(std::string_view text, Ending ending) {
  if (!next_tag(text, ending)) return false;
  note_gap(text, tag_.begin);
  gap_ = tag_.end;
  if (tag_.opens(TagName::kParameter)) {
    start_parameter();
  } else if (tag_.ends(TagName::kParameter)) {
    if (depth_ > 0) --depth_;
  } else if (tag_.ends(TagName::kInvoke)) {
    end_call();
    go(State::kBetween, at_);
  } else if (tag_.opens(TagName::kInvoke)) {
    end_call();
    start_call();
  } else if (tag_.ends(TagName::kBlock)) {
    end_call();
    state_ = State::kClosed;
  }
  return true;
}

void BlockReader::note_gap(std::string_view text, int64_t end) {
  call_.has_noise = call_.has_noise || skip_blanks(text.substr(0, end), gap_) < end;
}

void BlockReader::start_parameter() {
  malformed_ = malformed_ || !tag_.name_value;
  RawParameter parameter;
  parameter.name = tag_.name_value.value_or("");
  parameter.string_attribute = tag_.string_value;
  parameter.depth = depth_;
  call_.parameters.push_back(std::move(parameter));
  held_ = tag_;
  value_begin_ = tag_.end;
  go(tag_.string_value ? State::kValue : State::kParameterBegin, tag_.end);
}

bool BlockReader::parameter_begin(std::string_view text) {
  const TagMatch match = look_ahead(text);
  if (match == TagMatch::kCut) return false;
  if (match == TagMatch::kYes && tag_.opens(TagName::kParameter)) {
    call_.parameters.back().is_object = true;
    malformed_ = malformed_ || ++depth_ > kNestedParametersMax;
    go(State::kParameters, at_);
  } else {
    go(State::kValue, held_.end);
  }
  return true;
}

bool BlockReader::in_value(std::string_view text, Ending ending) {
  if (!next_tag(text, ending)) return false;
  const int64_t begin = tag_.begin;
  if (tag_.ends(TagName::kInvoke)) {
    held_ = tag_;
    go(State::kValueCloser, held_.end);
  } else if (in_body_) {
    const int64_t end = trimmed_end(text, value_begin_, begin);
    if (!tag_.ends(TagName::kBlock) || text[end - 1] != '}') return true;
    end_value(text, begin, /*closer_missing=*/false);
    end_call();
    state_ = State::kClosed;
  } else if (tag_.ends(TagName::kParameter)) {
    end_value(text, begin, /*closer_missing=*/false);
    go(State::kParameters, at_);
  } else if (tag_.opens(TagName::kParameter) && tag_.name_value && begin > value_begin_ &&
             text[begin - 1] == '\n') {
    end_value(text, begin, /*closer_missing=*/true);
    start_parameter();
  }
  return true;
}

bool BlockReader::behind_value_closer(std::string_view text, Ending ending) {
  const TagMatch match = look_ahead(text);
  const bool at_end = match == TagMatch::kCut && ending == Ending::kStopped;
  if (match == TagMatch::kCut && !at_end) return false;
  if (at_end ||
      (match == TagMatch::kYes && (tag_.ends(TagName::kBlock) || tag_.opens(TagName::kInvoke)))) {
    end_value(text, held_.begin, /*closer_missing=*/!in_body_);
    end_call();
    go(State::kBetween, at_);
  } else {
    go(State::kValue, held_.end);
  }
  return true;
}

void BlockReader::end_value(std::string_view text, int64_t end, bool closer_missing) {
  if (closer_missing) {
    // The closer of the other kind, right where the closer is missing, is what was meant for it.
    constexpr int64_t kCloserBytesMax = 64;
    const int64_t last = trimmed_end(text, value_begin_, end);
    const std::string_view tail = text.substr(0, last);
    const size_t found = tail.ends_with('>') ? tail.rfind('<') : std::string_view::npos;
    const auto from = static_cast<int64_t>(found);
    TagStep step;
    if (from >= value_begin_ && last - from <= kCloserBytesMax) step = read_tag(tail, from);
    const bool foreign =
        step.match == TagMatch::kYes && step.tag.ends(TagName::kParameter) && step.tag.end == last;
    end = foreign ? from : before_newline(text, value_begin_, end);
  }
  (in_body_ ? call_.body.emplace() : call_.parameters.back().value) = {value_begin_, end};
}

void BlockReader::finish(std::string_view text, Ending ending) {
  const bool stopped = ending == Ending::kStopped;
  const bool cut_opener = cut_.match == TagMatch::kCut && !cut_.tag.closes;
  switch (state_) {
    case State::kText:
      // A limit inside the opener itself: the word DSML is no prose.
      if (!stopped && cut_.may_open_block && may_start_block(text, cut_.tag.begin)) {
        block_begin_ = cut_.tag.begin;
      }
      break;
    case State::kOpener:
      block_begin_ = held_.begin;
      open_end_ = true;
      break;
    case State::kBetween:
      open_end_ = cut_opener;
      break;
    case State::kCallBegin:
    case State::kParameters:
      open_end_ = !stopped || cut_opener || depth_ > 0;
      if (open_end_) break;
      note_gap(text, size_of(text));
      end_call();
      break;
    case State::kValue:
      open_end_ = !stopped || !in_body_;
      if (open_end_) break;
      end_value(text, size_of(text), /*closer_missing=*/false);
      call_.open_body = true;
      end_call();
      break;
    case State::kParameterBegin:
    case State::kValueCloser:
      open_end_ = true;
      break;
    case State::kClosed:
      break;
  }
}

}  // namespace ds4::dsml
