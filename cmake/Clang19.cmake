# Toolchain file: Clang 19 with the runtimes of its sanitizers and of libFuzzer, from the machine or else
# from .deps/tools, into which scripts/tool.sh fetches it.
foreach(language C CXX)
  if(language STREQUAL "C")
    set(program clang-19)
  else()
    set(program clang++-19)
  endif()
  execute_process(
    COMMAND ${CMAKE_CURRENT_LIST_DIR}/../scripts/tool.sh clang-19 ${program}
    OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "scripts/tool.sh found no ${program} and could not fetch it")
  endif()
  set(CMAKE_${language}_COMPILER ${found})
endforeach()
