// How lorsa-inspect ends when it cannot give its verdict.
#ifndef LORSA_SERVER_INSPECTION_EXIT_CODES_H_
#define LORSA_SERVER_INSPECTION_EXIT_CODES_H_

namespace lorsa::server {

inline constexpr int kInspectBroken = 2;  // wrong arguments, limits that could not be set
inline constexpr int kInspectOutOfMemory = 3;

}  // namespace lorsa::server

#endif  // LORSA_SERVER_INSPECTION_EXIT_CODES_H_
