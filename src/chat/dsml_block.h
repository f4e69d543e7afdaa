#pragma once
// Reads the first tool block of a text, which may still be growing: what is a call, a parameter and
// a value, as places in the text. What the values mean as JSON is call_arguments.h.
//
//   text                      <tool_calls>  ws  <invoke name>  <parameter name> value </parameter>
//   text                      is text unless    or </tool_calls>          ...
//                             that follows      </invoke>  ...  </tool_calls>   text, discarded
//
// A value ends at the first </parameter>. Nothing else ends it except a newline and a <parameter>
// with a name (the closer was forgotten), or </invoke> with </tool_calls>, <invoke> or the end
// behind it; so markup inside a value is data. A block's kind (with DSML or plain) is its opener's,
// tags of the other kind are text. Text between tags is skipped.
//
// Linear: no byte is looked at more often than a fixed number of times, however the text arrives
// (tags of up to kTagBytesMax aside).
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/dsml_tags.h"

namespace ds4::dsml {

inline constexpr int64_t kNestedParametersMax = 32;

struct Span {
  int64_t begin = 0, end = 0;
  std::string_view of(std::string_view text) const { return text.substr(begin, end - begin); }
};

struct RawParameter {
  std::string name;
  std::optional<std::string> string_attribute;
  int64_t depth = 0;       // its children follow it, one deeper
  bool is_object = false;  // of its children; otherwise `value` counts
  Span value;
};

struct RawCall {
  std::string name;
  std::vector<RawParameter> parameters;
  std::optional<Span> body;  // from '{' on, when the call has that in place of parameters
  bool open_body = false;    // the text ended before the call was closed
  bool has_noise = false;    // there is text between its tags
};

enum class Ending {
  kNone,     // more text may come
  kStopped,  // the model has ended its answer
  kCut,      // a limit has: what is open now would have gone on
};

class BlockReader {
 public:
  // A reader that is inside the last block that opens in `text`, wherever that stands; before the
  // end when none does. For text in which blocks are also discussed.
  static BlockReader at_last_opener(std::string_view text);

  // Reads on in `text`, which must begin with all the text of the call before. After an ending
  // nothing may be read any more.
  void read(std::string_view text, Ending ending);

  // Where the opener starts, once it is known to be one.
  std::optional<int64_t> block_begin() const { return block_begin_; }
  bool closed() const { return state_ == State::kClosed; }
  int64_t block_end() const { return at_; }  // behind the closer, when closed()

  // A call or a parameter lacks its name, or parameters are nested too deep.
  bool malformed() const { return malformed_; }
  // The text ended inside a value, or inside a tag that may open something.
  bool open_end() const { return open_end_; }

  // The calls that are complete. An ending of kStopped completes the one that only lacks closers.
  const std::vector<RawCall>& calls() const { return calls_; }

 private:
  enum class State {
    kText,            // before a block
    kOpener,          // behind an opener: does what must follow it?
    kBetween,         // in the block, outside calls
    kCallBegin,       // behind <invoke>: does a JSON body follow?
    kParameters,      // in a call, outside values
    kParameterBegin,  // behind <parameter> without `string`: do children follow?
    kValue,           // in a value or a body
    kValueCloser,     // behind an </invoke> in there: does what makes it the end follow?
    kClosed,
  };

  bool step(std::string_view text, Ending ending);
  bool in_text(std::string_view text, Ending ending);
  bool behind_opener(std::string_view text);
  bool between(std::string_view text, Ending ending);
  bool call_begin(std::string_view text);
  bool in_parameters(std::string_view text, Ending ending);
  bool parameter_begin(std::string_view text);
  bool in_value(std::string_view text, Ending ending);
  bool behind_value_closer(std::string_view text, Ending ending);
  void finish(std::string_view text, Ending ending);

  void go(State state, int64_t at);
  bool next_tag(std::string_view text, Ending ending);
  TagMatch look_ahead(std::string_view text);
  bool may_start_block(std::string_view text, int64_t begin);
  void start_call();
  void start_parameter();
  void end_value(std::string_view text, int64_t end, bool closer_missing);
  void end_call();
  void note_gap(std::string_view text, int64_t end);

  State state_ = State::kText;
  int64_t at_ = 0;   // everything before is done with
  int64_t gap_ = 0;  // behind the last tag: the text between two tags starts here
  int64_t fences_at_ = 0, n_fences_ = 0;  // ``` marks before fences_at_
  Tag tag_;                               // what next_tag() or look_ahead() found
  Tag held_;                              // the tag whose meaning the next one decides
  TagStep cut_;                           // the tag inside which the text ended
  bool plain_ = false;                    // the kind of the block
  bool malformed_ = false, open_end_ = false, in_body_ = false;
  std::optional<int64_t> block_begin_;
  int64_t value_begin_ = 0;
  int64_t depth_ = 0;  // of nested parameters
  RawCall call_;
  std::vector<RawCall> calls_;
};

}  // namespace ds4::dsml
