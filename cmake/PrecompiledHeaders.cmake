# Headers that take a compiler longer than our own code does, compiled once for all who include them:
# half of the time of a build. A target names a set with PRECOMPILED; its files include what they
# use all the same, which the builds with sanitizers check, since they compile without.
#
#   torch   ATen
#   calls   gRPC and the messages
#
# Tests have each set with GoogleTest, and GoogleTest alone if they name none.

set(_absl "<absl/status/statusor.h>" "<absl/strings/str_cat.h>" "<absl/synchronization/mutex.h>"
          "<absl/time/time.h>")
set(_google_test "<gmock/gmock.h>" "<gtest/gtest.h>")
set(_torch "<ATen/ATen.h>")
set(_calls "<grpcpp/grpcpp.h>" "<lorsa/v1/activation_service.pb.h>"
           "<lorsa/v1/checkpoint_service.pb.h>" "<lorsa/v1/job_service.pb.h>"
           "<lorsa/v1/metric_service.pb.h>" "<lorsa/v1/worker_service.pb.h>")

# An object library whose only purpose is its precompiled header.
function(_lorsa_precompiled name)
  cmake_parse_arguments(ARG "" "" "HEADERS;DEPS;OPTIONS" ${ARGN})
  set(source ${CMAKE_BINARY_DIR}/precompiled/${name}.cc)
  if(NOT EXISTS ${source})
    file(WRITE ${source} "")
  endif()
  add_library(lorsa_precompiled_${name} OBJECT ${source})
  target_link_libraries(lorsa_precompiled_${name} PRIVATE lorsa_options ${ARG_DEPS})
  target_compile_features(lorsa_precompiled_${name} PRIVATE cxx_std_20)
  target_compile_options(lorsa_precompiled_${name} PRIVATE ${ARG_OPTIONS})
  target_precompile_headers(lorsa_precompiled_${name} PRIVATE ${ARG_HEADERS})
  set_target_properties(lorsa_precompiled_${name} PROPERTIES CXX_COMPILER_LAUNCHER
                        "${CMAKE_SOURCE_DIR}/cmake/precompile.sh;${CMAKE_CXX_COMPILER_LAUNCHER}")
endfunction()

# For both kinds of target: `set` is torch, calls or empty.
function(lorsa_use_precompiled target set)
  if(NOT LORSA_SANITIZE AND set)
    target_precompile_headers(${target} REUSE_FROM lorsa_precompiled_${set})
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)  # ccache
  endif()
endfunction()

# After the targets that they link to are known.
function(lorsa_make_precompiled)
  if(LORSA_SANITIZE)
    return()
  endif()
  _lorsa_precompiled(torch HEADERS ${_absl} ${_torch} DEPS lorsa::torch absl::statusor)
  _lorsa_precompiled(calls HEADERS ${_absl} ${_calls} DEPS lorsa::proto absl::statusor)
  if(NOT BUILD_TESTING)
    return()
  endif()
  set(google_test GTest::gmock GTest::gtest)
  _lorsa_precompiled(tests HEADERS ${_absl} ${_google_test} DEPS absl::statusor ${google_test}
                     OPTIONS -O0)
  _lorsa_precompiled(torch_tests HEADERS ${_absl} ${_torch} ${_google_test}
                     DEPS lorsa::torch absl::statusor ${google_test} OPTIONS -O0)
  _lorsa_precompiled(calls_tests HEADERS ${_absl} ${_calls} ${_google_test}
                     DEPS lorsa::proto absl::statusor ${google_test} OPTIONS -O0)
endfunction()
