// Makes and removes the parts of a pool. Writing its tables, and checking that no process uses it,
// is left to src/pool.
#pragma once

#include <string>
#include <vector>

#include "device/create_options.hpp"
#include "device/part.hpp"
#include "device/superblock.hpp"

namespace penstock::device {

/// Checks which parts may be made or replaced, opens those that are devices, and decides on sizes
/// and stripes. The caller adds the numbers of processes and nodes, and the tables. Changes
/// nothing.
Result<Superblock> plan(const CreateOptions& options, const std::vector<Part>& parts,
                        std::vector<OpenPart>& devices, LayOut lay_out);
/// Returns devices as opened, and files with reserved space, in the order of `parts`. `at_once`:
/// bytes of each file that are reserved.
Result<std::vector<OpenPart>> reserve_parts(const std::vector<Part>& parts,
                                            std::vector<OpenPart> devices, std::uint64_t part_bytes,
                                            std::uint64_t at_once);
/// Gives the parts their names; on failure removes the names given so far.
Result<void> name_parts(const std::vector<OpenPart>& parts, const CreateOptions& options);

/// Checks that the parts that exist are parts of pools.
Result<void> check_are_pools(const std::vector<Part>& parts, const std::string& spec);
/// Removes a file, wipes the superblock of a device. Refuses anything that is not a pool.
Result<void> remove_part(const Part& part, const std::string& spec);

}  // namespace penstock::device
