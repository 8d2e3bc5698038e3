// Catalogs on file systems without locks.
#ifndef LORSA_SERVER_CATALOG_MISSING_FILE_LOCKS_H_
#define LORSA_SERVER_CATALOG_MISSING_FILE_LOCKS_H_

namespace lorsa::server {

// From now on SQLite in this process counts a lock as granted if the file system has none
// (LacksLocks in base/folder_lock.h). Call it before a catalog is opened, and only in a process
// that holds the data folder's lock, which then alone keeps others away. Connections within the
// process exclude each other all the same. Idempotent.
void GrantMissingFileLocks();

}  // namespace lorsa::server

#endif  // LORSA_SERVER_CATALOG_MISSING_FILE_LOCKS_H_
