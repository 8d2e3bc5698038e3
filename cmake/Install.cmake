# What `cmake --install` puts where, in two components:
#   client   the C++ client library lorsa::client with its CMake package, public headers and .proto
#            files, and the `lorsa` command; without torch and HDF5
#   server   lorsad, lorsa-inspect, lorsa-worker and lorsa-set, and the sample configuration
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# --- client ---

set(_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/lorsa)
foreach(name base client job_spec proto proto_messages)
  set_target_properties(lorsa_${name} PROPERTIES EXPORT_NAME ${name})
  install(TARGETS lorsa_${name} EXPORT lorsa-targets
          ARCHIVE COMPONENT client
          INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endforeach()
install(EXPORT lorsa-targets NAMESPACE lorsa:: DESTINATION ${_package_dir} COMPONENT client)

configure_package_config_file(
  ${CMAKE_SOURCE_DIR}/cmake/lorsaConfig.cmake.in ${CMAKE_BINARY_DIR}/lorsaConfig.cmake
  INSTALL_DESTINATION ${_package_dir})
write_basic_package_version_file(
  ${CMAKE_BINARY_DIR}/lorsaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/lorsaConfig.cmake ${CMAKE_BINARY_DIR}/lorsaConfigVersion.cmake
        DESTINATION ${_package_dir} COMPONENT client)

install(DIRECTORY ${CMAKE_SOURCE_DIR}/client/cpp/include/lorsa TYPE INCLUDE COMPONENT client)
# All of lorsa.v1 but what lorsad and its workers alone read.
install(DIRECTORY ${CMAKE_BINARY_DIR}/proto/gen/lorsa TYPE INCLUDE COMPONENT client
        FILES_MATCHING PATTERN "*.h"
        PATTERN "worker_service.*" EXCLUDE PATTERN "server_config.*" EXCLUDE)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/proto/lorsa
        DESTINATION ${CMAKE_INSTALL_DATADIR}/lorsa/proto COMPONENT client
        FILES_MATCHING PATTERN "*.proto"
        PATTERN "worker_service.*" EXCLUDE PATTERN "server_config.*" EXCLUDE)

install(TARGETS lorsa RUNTIME COMPONENT client)

# --- server ---

# The worker finds libtorch where it was built with it.
set_target_properties(lorsa-worker PROPERTIES INSTALL_RPATH ${LORSA_TORCH_DIR}/lib)
install(TARGETS lorsad lorsa-inspect lorsa-worker lorsa-set RUNTIME COMPONENT server)
install(FILES ${CMAKE_SOURCE_DIR}/deploy/lorsad.textproto
        DESTINATION ${CMAKE_INSTALL_DATADIR}/lorsa COMPONENT server)
