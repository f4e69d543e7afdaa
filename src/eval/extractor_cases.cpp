// What the extractors must find: a table that the tests and --self-test-extractors go through.
#include <array>

#include "eval/extract.h"

namespace ds4::eval {
namespace {

constexpr AnswerKind kChoice = AnswerKind::kChoice;
constexpr AnswerKind kInteger = AnswerKind::kInteger;
constexpr AnswerKind kLines = AnswerKind::kLineSet;

constexpr auto kCases = std::to_array<ExtractorCase>({
    // As asked.
    {kChoice, 4, "Some thoughts.\nAnswer: C", "C"},
    {kChoice, 10, "Answer: J", "J"},
    {kInteger, 0, "Answer: 204", "204"},
    {kLines, 0, "Answer: 12, 15-17", "12,15-17"},
    // Markup around it.
    {kChoice, 4, "**Answer:** B", "B"},
    {kChoice, 4, "**Answer**: B", "B"},
    {kChoice, 4, "### Final Answer: (D)", "D"},
    {kChoice, 4, "Answer: \\boxed{\\text{A}}", "A"},
    {kChoice, 4, "Answer: **C.** the third one", "C"},
    {kChoice, 4, "Answer:\n\nB\n", "B"},
    {kChoice, 4, "ANSWER : b", "B"},
    {kInteger, 0, "**Answer: $\\boxed{42}$**", "42"},
    {kInteger, 0, "Answer: 1{,}234", "1234"},
    {kInteger, 0, "Answer: `7`.", "7"},
    {kLines, 0, "Answer: lines **3** and **9**", "3,9"},
    {kLines, 0, "Answer: 12\u201315", "12-15"},
    {kLines, 0, "Answer: 4 to 6, 8", "4-6,8"},
    // The word in prose, with an article: not a choice.
    {kChoice, 4, "The answer is a matter of taste, but D fits.\nAnswer: D", "D"},
    {kChoice, 4, "To answer a question like this, look closely. It must be C.", "C"},
    {kChoice, 4, "A careful answer: I think B", "B"},
    {kChoice, 10, "Answer: I", "I"},
    {kChoice, 4, "Answer: A cat", ""},
    // The last line that has an answer counts.
    {kChoice, 4, "Answer: A\nNo, wait.\nAnswer: B", "B"},
    {kChoice, 4, "Answer: B\nThe answer: as given above", "B"},
    {kInteger, 0, "Answer: 5\nChecking 9 again.\nAnswer: 6", "6"},
    // Without such a line.
    {kChoice, 4, "So we get \\boxed{D}, as (A) and (B) fail.", "D"},
    {kChoice, 4, "The correct answer is (C).", "C"},
    {kChoice, 4, "Not A, not B, so C it is: C", "C"},
    {kChoice, 4, "Option E is out of range here", ""},
    {kChoice, 4, "nothing", ""},
    {kInteger, 0, "the sum is \\boxed{113}. (It has 3 digits.)", "113"},
    {kInteger, 0, "The answer is therefore 7, not 8.", "7"},
    {kInteger, 0, "2 + 2 = 4", "4"},
    {kInteger, 0, "no number", ""},
    {kLines, 0, "The bug is here:\n17-19", "17-19"},
    {kLines, 0, "The answer is line 8", "8"},
    {kLines, 0, "It has 3 problems", ""},
    // Numbers.
    {kInteger, 0, "Answer: 007", "7"},
    {kInteger, 0, "Answer: -0", "0"},
    {kInteger, 0, "Answer: \u2212 5", "5"},
    {kInteger, 0, "Answer: \u22125", "-5"},
    {kInteger, 0, "Answer: 12.0", "12"},
    {kInteger, 0, "Answer: 12.5", "12.5"},
    {kInteger, 0, "Answer: 12,345,678", "12345678"},
    {kInteger, 0, "Answer: 1, 2", "1"},
    {kInteger, 0, "Answer: 99999999999999999999", "99999999999999999999"},
    {kLines, 0, "Answer: 99999999999999999999", "9223372036854775807"},
    {kLines, 0, "Answer: none", ""},
    // Nothing, and less than nothing.
    {kChoice, 4, "", ""},
    {kInteger, 0, "Answer:", ""},
    {kLines, 0, "\\boxed{", ""},
});

}  // namespace

std::span<const ExtractorCase> extractor_cases() { return kCases; }

}  // namespace ds4::eval
