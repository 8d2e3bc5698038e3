# How this project declares its own targets: one way for a library, a program and a test.
#
#   lorsa_library(NAME name SOURCES a.cc … DEPS lorsa::base …)   makes lorsa_name and lorsa::name
#   lorsa_program(NAME lorsad SOURCES main.cc … DEPS …)          the executable of that name
#   lorsa_tests(NAME base SOURCES a_test.cc … DEPS …)            one GoogleTest binary, base_tests;
#                                                                each of its cases is a ctest test
#                                                                with the label NAME; nothing
#                                                                without BUILD_TESTING
#
# PRECOMPILED torch or calls, for a library or a test: see PrecompiledHeaders.cmake.

set(LORSA_SANITIZE "" CACHE STRING "Value of -fsanitize= for our own code")

add_library(lorsa_options INTERFACE)
target_include_directories(lorsa_options INTERFACE ${CMAKE_SOURCE_DIR})
# -pthread: said to all alike, since some libraries say it and a precompiled header must not differ.
target_compile_options(lorsa_options INTERFACE -pthread)
# -Wrestrict: false alarms of GCC 12 on std::string (GCC bug 105651). -Wthread-safety, which checks
# the ABSL_GUARDED_BY annotations, is clang's alone.
target_compile_options(lorsa_options INTERFACE -Wall -Wextra -Werror -Wno-sign-compare
                       -Wno-missing-field-initializers
                       $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict> $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>)
if(LORSA_SANITIZE)
  target_compile_options(lorsa_options INTERFACE -fsanitize=${LORSA_SANITIZE} -fno-sanitize-recover=all
                         -fno-omit-frame-pointer)
  target_link_options(lorsa_options INTERFACE -fsanitize=${LORSA_SANITIZE})
endif()
if(LORSA_SANITIZE STREQUAL "thread")
  add_library(lorsa_tsan_abseil OBJECT ${CMAKE_SOURCE_DIR}/cmake/tsan_abseil.cc)
  target_compile_options(lorsa_tsan_abseil PRIVATE -fsanitize=thread)
  target_sources(lorsa_options INTERFACE $<TARGET_OBJECTS:lorsa_tsan_abseil>)
  target_link_options(lorsa_options INTERFACE
    -Wl,--wrap=_ZN4absl7debian35Mutex4LockEv
    -Wl,--wrap=_ZN4absl7debian35Mutex6UnlockEv
    -Wl,--wrap=_ZN4absl7debian37CondVar4WaitEPNS0_5MutexE)
endif()

function(lorsa_library)
  cmake_parse_arguments(ARG "" "NAME;PRECOMPILED" "SOURCES;DEPS" ${ARGN})
  add_library(lorsa_${ARG_NAME} STATIC ${ARG_SOURCES})
  add_library(lorsa::${ARG_NAME} ALIAS lorsa_${ARG_NAME})
  # Our warnings and include folder are not those of who links an installed library.
  target_link_libraries(lorsa_${ARG_NAME} PUBLIC $<BUILD_INTERFACE:lorsa_options> ${ARG_DEPS})
  target_compile_features(lorsa_${ARG_NAME} PUBLIC cxx_std_20)
  lorsa_use_precompiled(lorsa_${ARG_NAME} "${ARG_PRECOMPILED}")
endfunction()

function(lorsa_program)
  cmake_parse_arguments(ARG "" "NAME" "SOURCES;DEPS" ${ARGN})
  add_executable(${ARG_NAME} ${ARG_SOURCES})
  target_link_libraries(${ARG_NAME} PRIVATE lorsa_options ${ARG_DEPS})
  set_target_properties(${ARG_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
endfunction()

include(GoogleTest)
function(lorsa_tests)
  if(NOT BUILD_TESTING)
    return()
  endif()
  cmake_parse_arguments(ARG "" "NAME;PRECOMPILED" "SOURCES;DEPS" ${ARGN})
  add_executable(${ARG_NAME}_tests ${ARG_SOURCES})
  target_link_libraries(${ARG_NAME}_tests PRIVATE lorsa_options ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  # A test's own code is not worth an optimiser's time: a third of what compiling it takes. The
  # libraries that it tests are optimised as they are shipped.
  target_compile_options(${ARG_NAME}_tests PRIVATE -O0)
  if(ARG_PRECOMPILED)
    lorsa_use_precompiled(${ARG_NAME}_tests ${ARG_PRECOMPILED}_tests)
  else()
    lorsa_use_precompiled(${ARG_NAME}_tests tests)
  endif()
  gtest_discover_tests(${ARG_NAME}_tests DISCOVERY_MODE PRE_TEST PROPERTIES LABELS ${ARG_NAME} TIMEOUT 600)
endfunction()
