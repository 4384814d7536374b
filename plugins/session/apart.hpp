// Ranks that are apart from the others in the work of libpenstock-mpi.so: their calls do not come
// to it, or other collectives than all are for the pool there. The others must know this before
// they wait for them. The provider tells them: the MPI of every rank loads it, before MPI_Init
// returns.
#pragma once

#include <cstdint>
#include <optional>

#include "session.hpp"

namespace penstock::plugin {

struct Apart {
  enum class Why : std::uint8_t {
    none,       ///< the rank is as all others
    unloaded,   ///< the library is not in the process
    unseen,     ///< it is, but the program's calls pass it
    own_choice  ///< PENSTOCK_COLL is set
  };
  Why why = Why::none;
  std::uint64_t calls = 0;  ///< own_choice: the collectives for the pool

  bool operator==(const Apart&) const = default;
};

/// Tells it of this process, as long as that has attached the pool.
void tell_apart(const Session& session, const Apart& apart);
/// Of a rank of this job.
Apart told_apart(const Session& session, std::int32_t rank);

/// The provider finds this function of the library by its name.
inline constexpr const char* apart_symbol = "mpi_penstock_apart";
using AskApart = void(Apart* apart);

}  // namespace penstock::plugin
