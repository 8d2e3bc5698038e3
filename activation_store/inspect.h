// Parsing the files of a set from outside without looking at what they hold.
#ifndef LORSA_ACTIVATION_STORE_INSPECT_H_
#define LORSA_ACTIVATION_STORE_INSPECT_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "base/file_system.h"

namespace lorsa::store {

// Takes every file of the folder that a reader of the set will open through the parser that will
// read it: manifest, shards with their description, checksums, attention weights. `on_file` hears
// of each before. All are tried; the error is that of the first that does not parse, as SealSet
// would give it. A file that is missing, or that the set does not allow, is no matter here.
absl::Status InspectSet(FileSystem& fs, const std::string& folder,
                        const std::function<void(const std::string& name)>& on_file);

}  // namespace lorsa::store

#endif  // LORSA_ACTIVATION_STORE_INSPECT_H_
