#include "gpu/launch_ends.hpp"

namespace penstock::gpu {

Result<std::unique_ptr<LaunchEnds>> LaunchEnds::make(std::shared_ptr<const Device> device) {
  std::unique_ptr<LaunchEnds> made(new LaunchEnds);
  made->words_ = PENSTOCK_TRY(PinnedWords::make(std::move(device), sizeof(std::uint64_t)));
  return made;
}

bool LaunchEnds::all_ended() const {
  for (std::size_t i = 0; i < turns_.size(); ++i)
    if (!has_ended(i)) return false;
  return true;
}

}  // namespace penstock::gpu
