# lorsa::torch, from the torch wheel in the project's Python environment.
#
# Not find_package(Torch): the wheel carries Protobuf 3.13 headers in torch/include/google, and its
# package file leaves an empty protobuf::libprotobuf target behind. The wheel's headers therefore
# come last in the search order (-idirafter), after the distribution's Protobuf.
file(GLOB _torch_candidates ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch)
find_path(LORSA_TORCH_DIR lib/libtorch_cpu.so PATHS ${_torch_candidates} NO_DEFAULT_PATH
          DOC "The torch folder of a Python environment")
if(NOT LORSA_TORCH_DIR)
  message(FATAL_ERROR "No libtorch found. Run deploy/setup.sh, or set LORSA_TORCH_DIR.")
endif()

add_library(lorsa_torch INTERFACE)
add_library(lorsa::torch ALIAS lorsa_torch)
target_compile_options(lorsa_torch INTERFACE
  "SHELL:-idirafter ${LORSA_TORCH_DIR}/include"
  "SHELL:-idirafter ${LORSA_TORCH_DIR}/include/torch/csrc/api/include")
set(_torch_libraries torch torch_cpu c10)
if(EXISTS ${LORSA_TORCH_DIR}/lib/libtorch_cuda.so)
  list(APPEND _torch_libraries torch_cuda c10_cuda)
endif()
target_link_options(lorsa_torch INTERFACE
  -L${LORSA_TORCH_DIR}/lib -Wl,-rpath,${LORSA_TORCH_DIR}/lib -Wl,--no-as-needed)
# The wheel's own OpenMP, the only one in the process: a file that calls at::parallel_for is compiled
# with -fopenmp (LORSA_PARALLEL_FOR), without which libtorch's header runs the loop on one thread.
target_link_libraries(lorsa_torch INTERFACE ${_torch_libraries}
                      ${LORSA_TORCH_DIR}/lib/libgomp.so.1)
set(LORSA_PARALLEL_FOR -fopenmp)
