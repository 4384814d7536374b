// Communicators of the C interface.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "capi/attachment.hpp"
#include "coll/communicator.hpp"
#include "gpu/communicator.hpp"
#include "penstock/collectives.h"

struct penstock_comm final : penstock::capi::Handle {
  static constexpr const char* noun = "communicator";
  explicit penstock_comm(std::shared_ptr<penstock::capi::Attachment> to)
      : attachment(std::move(to)) {}
  /// Called after this rank's last call.
  void end() noexcept override;

  const std::shared_ptr<penstock::capi::Attachment> attachment;
  std::unique_ptr<penstock::coll::Communicator> core;
  std::vector<penstock::arena::Object> areas;             ///< its memory, freed by coll::end()
  std::optional<penstock::arena::Object> switch_area;     ///< of rank 0, which requests a switch
  penstock::coll::Problem problem;                        ///< of the call in progress
  std::vector<std::uint64_t> tokens;                      ///< by rank
  std::vector<penstock::gpu::Communicator::Area> places;  ///< all its memory in the pool
  std::mutex gpu_mutex;                                 ///< any thread may abort or ask for errors
  std::unique_ptr<penstock::gpu::Communicator> gpu;     ///< made by the first enqueued call
  std::shared_ptr<const penstock::gpu::Device> device;  ///< of `gpu`
  bool aborted = false;
};

namespace penstock::capi {

/// Communicators that this process has closed and that a switch serves. The switch releases its
/// regions after all ranks have left.
class ClosedComms {
 public:
  explicit ClosedComms(Attachment& at) : at_(at) {}
  /// Runs when the process detaches: waits briefly for the other ranks and the switches, and leaves
  /// the rest to the end of the job. Does not wait at the end of the process.
  ~ClosedComms();
  ClosedComms(const ClosedComms&) = delete;
  ClosedComms& operator=(const ClosedComms&) = delete;

  static ClosedComms& of(Attachment& at);
  void add(std::unique_ptr<coll::Communicator> core, arena::Object words, arena::Object region);
  /// Frees the regions of communicators that all ranks and the switch have left.
  void give_back();

 private:
  struct Closed {
    std::unique_ptr<coll::Communicator> core;
    arena::Object words, region;
  };
  Attachment& at_;
  std::mutex mutex_;
  std::vector<Closed> closed_;
};

/// Meets the other ranks and agrees with them on the communicator's memory. Collective.
Result<std::unique_ptr<penstock_comm>> open_comm(std::shared_ptr<Attachment> attachment,
                                                 const penstock_comm_options_t& options);

}  // namespace penstock::capi
