# The three ways a target comes to be, so that every folder declares its parts alike.
#
#   remesh_library(NAME planner SRCS a.cc DEPS base absl::status)
#   remesh_binary(NAME remesh-server SRCS main.cc DEPS server)
#   remesh_test(NAME planner_box_test SRCS box_test.cc DEPS planner [TIMEOUT seconds] [LABELS e2e])
#
# Headers are found from the repository root: #include "planner/values/box.h".

# Where CMAKE_UNITY_BUILD is on (preset release: what newcomers and CI build) up to 32 files of a
# target (12 of a test) are compiled as one, for most of a file's time goes to the headers of gRPC
# and protobuf: cold builds take half as long. Names in anonymous namespaces are therefore one
# target's, not one file's. The other presets compile files one by one, and so prove that each
# stands alone.

set(REMESH_WARNINGS -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers
    -Werror=return-type -Werror=unused-result)
# What is fuzzed tells the fuzzer where it has been. Generated code and the system's libraries do
# not: they are not what is tested. Of UBSan's checks those of arithmetic: the others see what ASan
# sees, and double the time to compile.
if(REMESH_FUZZ)
  set(fuzz_checks fuzzer-no-link address signed-integer-overflow shift integer-divide-by-zero
      float-cast-overflow bounds bool enum return unreachable)
  list(JOIN fuzz_checks "," fuzz_checks)
  set(REMESH_FUZZ_FLAGS -fno-sanitize-recover=all -fno-omit-frame-pointer
      -fsanitize=${fuzz_checks})
endif()

# Headers that most files read are parsed once (cmake/precompiled/*.h). Not those of protobuf and
# gRPC: with them GCC 12 has 400 MB to walk for each file, which takes longer than to parse them.
# Only GCC: clang builds what is fuzzed, and so proves that files include what they use.
option(REMESH_PRECOMPILE "Precompiled headers" ON)
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(REMESH_PRECOMPILE OFF)
endif()
function(remesh_precompile)
  cmake_parse_arguments(ARG "" "NAME" "DEPS" ${ARGN})
  if(NOT REMESH_PRECOMPILE)
    return()
  endif()
  set(empty ${PROJECT_BINARY_DIR}/precompiled/${ARG_NAME}.cc)
  file(GENERATE OUTPUT ${empty} CONTENT "")
  add_library(precompiled_${ARG_NAME} OBJECT EXCLUDE_FROM_ALL ${empty})
  target_include_directories(precompiled_${ARG_NAME} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(precompiled_${ARG_NAME} PRIVATE ${ARG_DEPS})
  target_precompile_headers(precompiled_${ARG_NAME} PRIVATE
    ${PROJECT_SOURCE_DIR}/cmake/precompiled/${ARG_NAME}.h)
endfunction()

function(remesh_use_precompiled TARGET NAME)
  if(REMESH_PRECOMPILE)
    target_precompile_headers(${TARGET} REUSE_FROM precompiled_${NAME})
  endif()
endfunction()

function(remesh_library)
  cmake_parse_arguments(ARG "" "NAME" "SRCS;DEPS" ${ARGN})
  add_library(${ARG_NAME} STATIC ${ARG_SRCS})
  remesh_use_precompiled(${ARG_NAME} std)
  target_include_directories(${ARG_NAME} PUBLIC ${PROJECT_SOURCE_DIR})
  target_compile_options(${ARG_NAME} PRIVATE ${REMESH_WARNINGS} ${REMESH_FUZZ_FLAGS})
  target_link_libraries(${ARG_NAME} PUBLIC ${ARG_DEPS} Threads::Threads)
endfunction()

# Code that runs seldom or waits: optimised less in a release, it compiles in two thirds to five
# sixths of the time.
function(remesh_seldom_runs)
  foreach(target IN LISTS ARGN)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endforeach()
endfunction()

function(remesh_binary)
  cmake_parse_arguments(ARG "" "NAME" "SRCS;DEPS" ${ARGN})
  add_executable(${ARG_NAME} ${ARG_SRCS})
  remesh_use_precompiled(${ARG_NAME} std)
  target_compile_options(${ARG_NAME} PRIVATE ${REMESH_WARNINGS})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPS})
endfunction()

function(remesh_test)
  cmake_parse_arguments(ARG "" "NAME;TIMEOUT" "SRCS;DEPS;LABELS" ${ARGN})
  if(REMESH_FUZZ)
    return()
  endif()
  add_executable(${ARG_NAME} ${ARG_SRCS})
  remesh_use_precompiled(${ARG_NAME} std_test)
  target_compile_options(${ARG_NAME} PRIVATE ${REMESH_WARNINGS})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPS} GTest::gtest GTest::gmock GTest::gtest_main)
  # Fewer files at once: tests of one target have helpers of like names.
  set_target_properties(${ARG_NAME}
    PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests UNITY_BUILD_BATCH_SIZE 12)
  remesh_seldom_runs(${ARG_NAME})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_test(NAME ${ARG_NAME} COMMAND ${ARG_NAME} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${ARG_NAME} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}"
    ENVIRONMENT "REMESH_BIN_DIR=${CMAKE_BINARY_DIR}/bin")
endfunction()
