// A tagged endpoint of a libfabric provider, paired with that of the other side.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>

#include <memory>
#include <string>
#include <vector>

#include "bench/message_path.hpp"
#include "bench/pair_runner.hpp"

namespace penstock::bench {

struct FiClose {
  template <class Object>
  void operator()(Object* object) const {
    fi_close(&object->fid);
  }
  void operator()(fi_info* info) const { fi_freeinfo(info); }
};
template <class Object>
using FiHandle = std::unique_ptr<Object, FiClose>;

/// Uses a provider as MPI does: posts receives ahead, injects small sends, polls queues.
class FiPort final : public MessagePath {
 public:
  /// `one_sided`: also for put and get. Errors: unavailable (libfabric offers no such provider), or
  /// what a call returned.
  static Result<std::unique_ptr<FiPort>> open(const std::string& provider, bool one_sided = false);
  std::string name() const;
  Result<void> connect(const std::string& peer_name);

  /// Posts a receive into `to` before its message arrives; the next receive() waits for it.
  Result<void> post(std::byte* to, std::size_t bytes);
  Result<void> send(const std::byte* data, std::size_t bytes) override;
  Result<void> receive(std::byte* to, std::size_t bytes) override;

  // ---- one-sided ----
  /// Key and address by which a peer accesses memory.
  struct Exposed {
    std::uint64_t key = 0, address = 0;
  };
  Result<Exposed> expose(std::byte* at, std::size_t bytes);
  /// Returns once it is complete at the target.
  Result<void> put(const std::byte* from, std::size_t bytes, const Exposed& to);
  Result<void> get(std::byte* to, std::size_t bytes, const Exposed& from);
  /// Serves requests of peers.
  void progress();

 private:
  Result<void> open_objects(fi_info* info);
  Result<bool> completed(fid_cq* queue);
  Result<void> finished(const char* call, ssize_t status);

  FiHandle<fi_info> info_;
  FiHandle<fid_fabric> fabric_;
  FiHandle<fid_domain> domain_;
  FiHandle<fid_av> addresses_;
  FiHandle<fid_cq> sent_, received_;
  FiHandle<fid_ep> endpoint_;
  std::vector<FiHandle<fid_mr>> exposed_;
  fi_addr_t peer_ = FI_ADDR_UNSPEC;
  fi_context2 send_context_{}, receive_context_{};
  bool posted_ = false;
};

}  // namespace penstock::bench
