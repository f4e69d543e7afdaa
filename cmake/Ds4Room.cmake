# What every target is compiled with, and one-line helpers for rooms, programs and tests.

add_library(ds4_flags INTERFACE)
# -ffp-contract=off: encoders and the reference backend promise bytes and bits, so a multiply and an
# add stay two roundings on every machine; a kernel that wants a fused one says so.
target_compile_options(
  ds4_flags INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wimplicit-fallthrough -Werror
                      -ffp-contract=off)
# Two warnings that speak against good code: fields left to their defaults in a designated initializer,
# and (GCC 12, at -O3) overlaps that std::string's own operator+ cannot have.
target_compile_options(ds4_flags INTERFACE -Wno-missing-field-initializers
                                           $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
target_include_directories(ds4_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)
if(DS4_SANITIZE STREQUAL "address")
  target_compile_options(ds4_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all
                                             -fno-omit-frame-pointer)
  target_link_options(ds4_flags INTERFACE -fsanitize=address,undefined)
elseif(DS4_SANITIZE STREQUAL "thread")
  target_compile_options(ds4_flags INTERFACE -fsanitize=thread -fno-omit-frame-pointer)
  target_link_options(ds4_flags INTERFACE -fsanitize=thread)
elseif(DS4_SANITIZE STREQUAL "fuzzer")
  target_compile_options(ds4_flags INTERFACE -fsanitize=fuzzer-no-link,address,undefined
                                             -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(ds4_flags INTERFACE -fsanitize=address,undefined)
elseif(NOT DS4_SANITIZE STREQUAL "")
  message(FATAL_ERROR "DS4_SANITIZE: expected address, thread, fuzzer or nothing, found '${DS4_SANITIZE}'")
endif()
if(DS4_SANITIZE)
  target_compile_definitions(ds4_flags INTERFACE DS4_SANITIZED=1)
endif()
if(CMAKE_CROSSCOMPILING_EMULATOR)
  target_compile_definitions(ds4_flags INTERFACE DS4_EMULATED=1)
endif()

# ds4_room(NAME SOURCES ... DEPS ...): a folder of src/ as a static library. DEPS is the room's row of
# the table in docs/architecture.md; tests/tidy holds every #include against the same table.
function(ds4_room name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;PRIVATE" ${ARGN})
  add_library(ds4_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(ds4_${name} PUBLIC ds4_flags ${ARG_DEPS} PRIVATE ${ARG_PRIVATE})
endfunction()

# ds4_app(NAME SOURCES ... DEPS ...): a program in bin/.
function(ds4_app name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ds4_flags ${ARG_DEPS})
endfunction()

# ds4_test(NAME SOURCES ... DEPS ... [LABELS ...] [TIMEOUT s]): one GoogleTest program, one ctest entry.
# Three labels choose the programs that make ci also builds and runs in another way: `tsan` under the thread
# sanitizer (what shares memory between threads), `unoptimised` at -O0 (arithmetic), `arm64` for 64-bit Arm under an
# emulator (kernels). Each has a target, LABEL_tests.
function(ds4_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ds4_flags ${ARG_DEPS} ds4::gtest_main)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  if(DS4_SANITIZE STREQUAL "address")
    # Undefined behaviour is looked for in the rooms and the programs: checking the tests' own code as well
    # would double their compile time.
    target_compile_options(${name} PRIVATE -fno-sanitize=undefined)
  endif()
  target_compile_definitions(
    ${name} PRIVATE DS4_SOURCE_DIR="${PROJECT_SOURCE_DIR}" DS4_BINARY_DIR="${PROJECT_BINARY_DIR}")
  add_test(NAME ${name} COMMAND ${name})
  if(ARG_LABELS)
    set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}")
  endif()
  foreach(label tsan unoptimised arm64)
    if(NOT TARGET ${label}_tests)
      add_custom_target(${label}_tests)
    endif()
    if(label IN_LIST ARG_LABELS)
      add_dependencies(${label}_tests ${name})
    endif()
  endforeach()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 600)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT})
endfunction()
