# cmake -DINPUT=file -DOUTPUT=file.cpp -DHEADER=room/header.h -DNAME=qualified::function -P EmbedText.cmake
#
# Writes a source file whose function returns the text of INPUT, so that a program carries it wherever it goes. Each
# line becomes one raw string literal, because compilers bound the length of a single one.
file(READ "${INPUT}" text)
set(close ")~ds4~\"")
string(FIND "${text}" "${close}" at)
if(NOT at EQUAL -1)
  message(FATAL_ERROR "${INPUT}: holds ${close}, which ends the raw string literals it is written as")
endif()
string(REPLACE "\n" "\n${close}\nR\"~ds4~(" text "${text}")
file(
  WRITE "${OUTPUT}.new"
  "// Made from ${INPUT} by cmake/EmbedText.cmake.\n#include \"${HEADER}\"\n\n"
  "std::string_view ${NAME}() {\n  static constexpr char kText[] =\nR\"~ds4~(${text}${close};\n"
  "  return {kText, sizeof(kText) - 1};\n}\n")
file(RENAME "${OUTPUT}.new" "${OUTPUT}")
